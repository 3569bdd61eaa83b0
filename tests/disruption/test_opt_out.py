"""The opt-out annotations, one table: what protects a pod, until when, and what is reported as unreadable."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from plimsoll.disruption.opt_out import (
    DO_NOT_DISRUPT,
    INVALID_OPT_OUT,
    SAFE_TO_EVICT,
    SCALE_DOWN,
    SCALE_DOWN_DISABLED,
    invalid_opt_outs,
    local_volumes,
    node_opt_out,
    pod_opt_out,
)
from plimsoll.kube.types.core import Pod
from tests import build
from tests.build import START

HOUR = timedelta(hours=1)
# annotation, value, age since the pod's start (None: not started), protected, reported
TABLE = [
    (SAFE_TO_EVICT, "false", HOUR, True, False),
    (SAFE_TO_EVICT, "on-completion", HOUR, True, False),
    (SAFE_TO_EVICT, "true", HOUR, False, False),
    (SAFE_TO_EVICT, "no", HOUR, False, False),
    (DO_NOT_DISRUPT, "true", HOUR, True, False),
    (DO_NOT_DISRUPT, "false", HOUR, False, False),
    (DO_NOT_DISRUPT, "90m", HOUR, True, False),
    (DO_NOT_DISRUPT, "90m", 2 * HOUR, False, False),
    (DO_NOT_DISRUPT, "1h", HOUR, False, False),
    (DO_NOT_DISRUPT, "90m", None, True, False),
    (DO_NOT_DISRUPT, "yes", HOUR, False, True),
    (DO_NOT_DISRUPT, "", HOUR, False, True),
    (DO_NOT_DISRUPT, "0s", HOUR, False, True),
    (DO_NOT_DISRUPT, "-5m", HOUR, False, True),
    (DO_NOT_DISRUPT, "99999999999h", HOUR, False, True),
    (DO_NOT_DISRUPT, "9" * 5000, HOUR, False, True),
    (DO_NOT_DISRUPT, "True", HOUR, False, True),
]
IDS = [f"{key.rpartition('/')[2]}={value[:16]!r} after {age}" for key, value, age, _, _ in TABLE]


def annotated(key: str, value: str, age: timedelta | None) -> Pod:
    """A pod that was created long before it started: its age counts from its start."""
    pod = build.pod("web-1", annotations={key: value}, creationTimestamp="2020-01-01T00:00:00Z")
    return replace(pod, status=replace(pod.status, start_time=START - age if age is not None else None))


@pytest.mark.parametrize(("key", "value", "age", "protected", "reported"), TABLE, ids=IDS)
def test_pods(key: str, value: str, age: timedelta | None, protected: bool, reported: bool) -> None:
    pod = annotated(key, value, age)
    blocker = pod_opt_out(pod, START)
    assert (blocker is not None) is protected
    if blocker is not None:
        assert blocker.code == "NotSafeToEvictAnnotation"
        assert f'{key}: "{value}"' in blocker.message
    problems = invalid_opt_outs([pod], START)
    assert [problem.code for problem in problems] == ([INVALID_OPT_OUT] if reported else [])
    assert all(problem.regarding.uid == pod.uid and len(problem.message) < 1000 for problem in problems)


def test_a_duration_says_when_the_protection_ends() -> None:
    blocker = pod_opt_out(annotated(DO_NOT_DISRUPT, "90m", HOUR), START)
    assert blocker is not None
    assert blocker.until == START + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("annotations", "stays"),
    [
        ({SCALE_DOWN_DISABLED: "true"}, True),
        ({SCALE_DOWN_DISABLED: "false"}, False),
        ({SCALE_DOWN: "disabled"}, True),
        ({SCALE_DOWN: "enabled"}, False),
        ({}, False),
    ],
)
def test_nodes(annotations: dict[str, str], stays: bool) -> None:
    blocker = node_opt_out("node n1", annotations)
    assert (blocker is not None) is stays
    assert blocker is None or (blocker.code == "ScaleDownDisabledAnnotation" and "node n1" in blocker.message)


def test_local_volumes_are_named_unless_exempt() -> None:
    volumes = [{"name": "cache", "emptyDir": {}}, {"name": "disk", "hostPath": {"path": "/d"}}, {"name": "cfg"}]
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    assert local_volumes(build.pod(spec={"volumes": volumes})) == ["cache", "disk"]
    assert local_volumes(build.pod(spec={"volumes": volumes}, annotations={key: "disk, other"})) == ["cache"]
    assert local_volumes(build.pod(spec={"volumes": volumes}, annotations={key: "disk,cache"})) == []
