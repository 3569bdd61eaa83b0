"""Times in every form that the API server accepts, kept as they were written in custom resources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from plimsoll.kube.codec import decode_object, encode
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.times import parse_time

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31t12:00:00z", NOON),
        ("2026-01-31T12:00:00.000000000Z", NOON),
        ("2026-01-31T12:00:00.1234567891Z", NOON.replace(microsecond=123456)),
        ("2026-01-31T12:00:00,5Z", NOON.replace(microsecond=500000)),
        ("2026-01-31T14:00:00+02:00", NOON),
        ("2026-01-31T02:00:00-10:00", NOON),
        ("2026-02-01T12:00:00+24:00", NOON),
        ("2026-01-31T9:00:00Z", NOON.replace(hour=9)),
        ("0000-01-01T00:00:00Z", datetime.min.replace(tzinfo=UTC)),
        ("0001-01-01T00:00:00+01:00", datetime.min.replace(tzinfo=UTC)),
        ("10000-01-01T00:59:59Z", datetime.max.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59-01:00", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_every_form(text: str, moment: datetime):
    assert parse_time(text) == moment
    node = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": text}]}}
    (taint,) = decode_object(encode(node), Node).spec.taints
    assert taint.time_added is not None
    # msgspec rounds where we cut, and keeps an offset that leads out of the years that Python knows.
    assert abs(taint.time_added - moment) <= timedelta(hours=1, seconds=1)
    assert text[0] != "2" or abs(taint.time_added - moment) <= timedelta(microseconds=1)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-31T25:00:00Z"])
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ValueError, match=r"time|month|hour"):
        parse_time(text)
    with pytest.raises(msgspec.ValidationError):
        decode_object(encode({"metadata": {"creationTimestamp": text}}), Node)


def test_several_odd_times_in_one_object():
    pod = {
        "metadata": {
            "name": "p",
            "creationTimestamp": "2026-01-31t12:00:00z",
            "deletionTimestamp": "10000-01-01T00:00:00Z",
        },
        "status": {
            "startTime": "2026-01-31T9:00:00Z",
            "conditions": [
                {"type": "A", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
                {"type": "B", "status": "True", "lastTransitionTime": "2026-01-31t12:00:00z"},
            ],
        },
    }
    decoded = decode_object(encode(pod), Pod)
    assert decoded.metadata.creation_timestamp == NOON
    assert decoded.terminating
    assert [condition.last_transition_time for condition in decoded.status.conditions] == [NOON, NOON]
    assert decoded.status.start_time == NOON.replace(hour=9)


def test_odd_times_in_a_mapping():
    budget = {
        "metadata": {"name": "b"},
        "status": {"disruptedPods": {"a": "2026-01-31t12:00:00z", "b": "2026-01-31T12:00:00Z"}},
    }
    assert decode_object(encode(budget), PodDisruptionBudget).status.disrupted_pods == {"a": NOON, "b": NOON}
