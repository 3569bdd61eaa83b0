"""The order in which a ReplicaSet gives up its pods, criterion by criterion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.embedded_cluster.api.json_documents import Json, uid_of
from plimsoll.embedded_cluster.api.timestamps import timestamp
from plimsoll.embedded_cluster.clocks import EPOCH
from plimsoll.embedded_cluster.controllers.replica_ranking import COST, cost_of, rank_for_deletion

NOW = EPOCH


def pod(
    uid: str, *, node: str = "n", phase: str = "Running", ready_for: float | None = 1000, age: float = 2000,
    cost: str | None = None, restarts: int = 0, **metadata: Any,
) -> Json:  # fmt: skip
    conditions = []
    if ready_for is not None:
        moment = timestamp(NOW - timedelta(seconds=ready_for))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": moment}]
    created = timestamp(NOW - timedelta(seconds=age))
    return {
        "metadata": {
            "uid": uid, "name": uid, "creationTimestamp": created,
            "annotations": {} if cost is None else {COST: cost}, **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": [{"restartCount": restarts}]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("z", node="", cost="9"), pod("a", node="m")),
        (pod("z", phase="Pending", ready_for=None, cost="9"), pod("a", node="m")),
        (pod("z", phase="Pending", ready_for=None), pod("a", phase="Unknown", ready_for=None, node="m")),
        (pod("z", ready_for=None, cost="9"), pod("a", node="m")),
        (pod("z", cost="-1"), pod("a", node="m")),
        (pod("z", cost="1"), pod("a", node="m", cost="2")),
        (pod("z", ready_for=10), pod("a", node="m", ready_for=1000)),
        (pod("a", ready_for=1000), pod("z", node="m", ready_for=1010)),
        (pod("a", ready_for=1010), pod("z", node="m", ready_for=1000)),
        (pod("z", restarts=3), pod("a", node="m")),
        (pod("z", age=3), pod("a", node="m", age=5000)),
        (pod("a", age=2000), pod("z", node="m", age=2001)),
    ],
    ids=[
        "unassigned", "pending", "pending before unknown", "not ready", "lower cost than none", "lower cost",
        "ready for a shorter time", "about as long: the smaller uid", "whichever is older", "more restarts", "newer",
        "about as new: the smaller uid",
    ],
)  # fmt: skip
def test_which_goes_first(first: Json, second: Json) -> None:
    for pods in ([first, second], [second, first]):
        assert [uid_of(one) for one in rank_for_deletion(pods, pods, NOW)] == [uid_of(first), uid_of(second)]


def test_the_fuller_node_goes_first_whoever_fills_it() -> None:
    one, other = pod("z", node="full"), pod("a", node="empty")
    sibling = pod("sibling", node="full")
    assert rank_for_deletion([other, one], [one, other, sibling], NOW)[0] is one


@pytest.mark.parametrize("text", ["", "x", "+1", "01", "-0", "1.5", "2147483648", "-2147483649", "1 "])
def test_a_cost_that_is_none_counts_as_nothing(text: str) -> None:
    assert cost_of(pod("a", cost=text)) == 0


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-5", -5), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))]
)
def test_costs(text: str, value: int) -> None:
    assert cost_of(pod("a", cost=text)) == value
