"""In-place resize: while it is under way, the largest of desired, allocated and actual requests counts."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import Constraint
from tests.scheduling.cases import Case, node, pod

NODE = node("n", {"cpu": "4", "memory": "8Gi", "pods": "110"})
WANTS_THREE = pod("new", {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}})


def running(desired: str, allocated: str, actual: str, *, generation: int = 2, **status: Any) -> Pod:
    container = {"name": "main", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}
    return pod(
        "old",
        {
            "metadata": {"generation": generation},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": desired}}}]},
            "status": {"phase": "Running", "containerStatuses": [container], **status},
        },
        node="n",
    )


def room_for_three_beside(old: Pod) -> bool:
    reason = fits(Case(nodes=(NODE,), bound=(old,)).snapshot(), WANTS_THREE, "n")
    assert reason is None or reason.rule is Constraint.RESOURCES
    return reason is None


@pytest.mark.parametrize(
    ("desired", "allocated", "actual", "room"),
    [
        ("1", "1", "1", True),
        ("1", "2", "2", False),  # a shrink that the kubelet has not seen yet
        ("1", "1", "2", False),  # a shrink under way
        ("2", "1", "1", False),  # growth that is not admitted yet
        ("500m", "750m", "1", True),
    ],
)
def test_the_largest_counts(desired: str, allocated: str, actual: str, room: bool) -> None:
    assert room_for_three_beside(running(desired, allocated, actual)) is room


def test_what_the_kubelet_calls_infeasible_does_not_count() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    assert room_for_three_beside(running("2", "1", "1", conditions=[pending]))


def test_a_sidecar_and_pod_level_requests_count_likewise() -> None:
    sidecar = pod(
        "old",
        {
            "metadata": {"generation": 3},
            "spec": {
                "containers": [{"name": "main"}],
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
                ],
            },
            "status": {"initContainerStatuses": [{"name": "side", "allocatedResources": {"cpu": "2"}}]},
        },
        node="n",
    )
    assert not room_for_three_beside(sidecar)
    whole = pod(
        "old",
        {
            "metadata": {"generation": 3},
            "spec": {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "1"}}},
            "status": {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}},
        },
        node="n",
    )
    assert not room_for_three_beside(whole)
