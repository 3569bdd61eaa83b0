"""What users write: what is followed, what is not, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.placement.spec import (
    DURATION,
    ENABLED,
    MIN_ON_DEMAND,
    SCHEDULE,
    SPOT_PERCENTAGE,
    TIMEZONE,
    ParsedAnnotations,
    parse_annotations,
)
from plimsoll.controllers.placement.target import Share
from tests import build


def reading(labels: Any = None, percent_sign: Any = "required", **annotations: str) -> ParsedAnnotations:
    keys = {
        "enabled": ENABLED, "minimum": MIN_ON_DEMAND, "spot": SPOT_PERCENTAGE,
        "schedule": SCHEDULE, "duration": DURATION, "timezone": TIMEZONE,
    }  # fmt: skip
    written = {keys[name]: value for name, value in annotations.items()}
    workload = build.deployment("web", annotations=written, labels=labels or {})
    return parse_annotations(workload, percent_sign=percent_sign)


def share(found: ParsedAnnotations) -> Share | None:
    return found.policy.share if found.policy else None


def test_both_annotations():
    assert share(reading(enabled="true", minimum="2", spot="60%")) == Share(2, 60)


@pytest.mark.parametrize(
    ("annotations", "expected"), [({"minimum": "3"}, Share(3, 0)), ({"spot": "75%"}, Share(0, 75))]
)
def test_only_one_of_the_two(annotations: dict[str, str], expected: Share):
    assert share(reading(enabled="true", **annotations)) == expected


@pytest.mark.parametrize("annotations", [{}, {"enabled": "false", "spot": "60%"}, {"spot": "nonsense"}])
def test_not_enabled_is_not_read_at_all(annotations: dict[str, str]):
    assert reading(**annotations) == ParsedAnnotations()


def test_enabled_and_nothing_asked_changes_nothing():
    assert reading(enabled="true") == ParsedAnnotations(enabled=True)


def test_the_label_of_older_installations_opts_in_and_the_annotation_wins():
    assert share(reading(labels={ENABLED: "true"}, spot="60%")) == Share(0, 60)
    assert reading(labels={ENABLED: "true"}, enabled="false", spot="60%") == ParsedAnnotations()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("enabled", value) for value in ("TRUE", "True", "yes", "1", "", " true")),
        *(("minimum", value) for value in ("-1", "2.5", "1000", "two", "", " 2", "2 ", "٣", "9" * 5000)),
        *(
            ("spot", value)
            for value in ("70", "101%", "-1%", "60.5%", " 60 %", "60 %", "%", "", "٦٠%", "9" * 5000 + "%")
        ),
    ],
)
def test_anything_else_is_refused_and_named(key: str, value: str):
    found = reading(**{"enabled": "true", "minimum": "1", "spot": "50%", key: value})
    assert found.policy is None
    (fault,) = found.problems
    assert fault.value == value
    assert fault.key in str(fault)
    assert len(str(fault)) < 300


def test_every_fault_is_named_at_once():
    found = reading(enabled="maybe", minimum="-1", spot="70", schedule="0 2 * * *")
    assert [fault.key for fault in found.problems] == [ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE, SCHEDULE]


def test_installations_that_left_the_percent_sign_out_can_say_so():
    assert share(reading(percent_sign="optional", enabled="true", spot="70")) == Share(0, 70)
    assert share(reading(percent_sign="optional", enabled="true", spot="70%")) == Share(0, 70)
    assert reading(percent_sign="optional", enabled="true", spot="170").problems


def test_a_window_of_the_workloads_own():
    found = reading(enabled="true", spot="50%", schedule="0 2 * * *", duration="4h", timezone="Europe/Berlin")
    assert found.policy is not None
    assert str(found.policy.window) == '"0 2 * * *" for 4h (Europe/Berlin)'


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        ({"schedule": "0 2 * * *"}, "needs spotalis.io/disruption-duration"),
        ({"duration": "4h"}, "needs spotalis.io/disruption-schedule"),
        ({"timezone": "UTC"}, "means nothing without"),
        ({"schedule": "0 2 * *", "duration": "4h"}, "five fields"),
        ({"schedule": "0 2 * * *", "duration": "4h", "timezone": "Nowhere"}, "unknown"),
    ],
)
def test_half_a_window_or_a_wrong_one_is_invalid_input(annotations: dict[str, str], says: str):
    found = reading(enabled="true", spot="50%", **annotations)
    assert found.policy is None
    assert says in str(found.problems[0])
