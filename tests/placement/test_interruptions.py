"""Nodes that are about to go: who leaves early, within what limits, and what is not hurried."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.spec import DURATION, SCHEDULE
from tests import build
from tests.placement.scene import ON_DEMAND, SPOT, Scene, codes, evicted, on_demand_node, spot_node

TAINTS = [
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "cloud.google.com/impending-node-termination",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
]


def interrupted(count: int = 2, taint: str = TAINTS[0], **fields: object) -> Scene:
    """Ten replicas as they should be, so many of them on a spot node that is about to go."""
    scene = Scene(**fields)  # type: ignore[arg-type]
    scene.running(6 - count, 4)
    scene.add(spot_node("spot-2", taint))
    for number in range(count):
        scene.pod(f"leaves-{number}", node="spot-2", mark=SPOT)
    return scene


@pytest.mark.parametrize("taint", TAINTS)
def test_pods_leave_one_at_a_time_where_there_is_no_budget(taint: str):
    decision = interrupted(taint=taint).decide()
    assert evicted(decision) == ["leaves-0"]
    assert decision.reason.code == "NodeLeaving"
    assert taint in decision.reason.message
    assert "OwnerDisrupted" in codes(decision)


def test_and_as_many_as_a_budget_allows():
    scene = interrupted(4)
    scene.add(build.budget(allowed=3, selector={"matchLabels": {"app": "web"}}))
    assert evicted(scene.decide()) == ["leaves-0", "leaves-1", "leaves-2"]


def test_a_pod_that_says_it_must_not_be_moved_stays_to_the_end():
    scene = interrupted()
    scene.pod("leaves-0", node="spot-2", mark=SPOT, annotations={"karpenter.sh/do-not-disrupt": "true"})
    assert evicted(scene.decide()) == ["leaves-1"]


def test_whatever_the_window_and_the_cooldown_say():
    scene = interrupted(annotations={SCHEDULE: "0 2 * * *", DURATION: "1m"})
    scene.now += timedelta(hours=5)
    scene.disrupted(scene.now)
    assert evicted(scene.decide()) == ["leaves-0"]


def test_but_never_against_a_budget():
    scene = interrupted()
    scene.add(build.budget(allowed=0))
    decision = scene.decide()
    assert not evicted(decision)
    assert codes(decision) == ["NotEnoughPdb"]


def test_two_budgets_over_one_pod_mean_never():
    scene = interrupted()
    for name in ("one", "two"):
        scene.add(build.budget(name, allowed=5, selector={"matchLabels": {"app": "web"}}))
    decision = scene.decide()
    assert not evicted(decision)
    assert "SeveralBudgets" in codes(decision)


def test_they_count_as_gone_so_that_what_is_missing_shows():
    decision = interrupted().decide()
    assert decision.action is NextAction.SCALE_UP_SPOT
    assert decision.state is not None and decision.state.current_spot == 4
    assert decision.current is not None and decision.current.spot == 6


def test_the_minimum_on_demand_is_not_given_up_early():
    scene = Scene(replicas=4, spot="50%", minimum="2")
    scene.running(2, 1)
    scene.add(on_demand_node("od-2", TAINTS[1]))
    scene.pod("leaves", node="od-2", mark=ON_DEMAND)
    decision = scene.decide()
    assert not evicted(decision)
    assert "MinimumOnDemand" in codes(decision)


def test_nor_is_the_last_ready_replica():
    scene = Scene(replicas=1, spot="100%", minimum="0")
    scene.add(spot_node("spot-2", TAINTS[0]))
    scene.pod("leaves", node="spot-2", mark=SPOT)
    decision = scene.decide()
    assert not evicted(decision)
    assert codes(decision) == ["LastReady"]


def test_whoever_leaves_with_its_node_is_not_moved_besides():
    scene = Scene()
    scene.running(8, 2)
    scene.add(spot_node("spot-2", TAINTS[0]))
    scene.pod("leaves", node="spot-2", mark=SPOT, annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"})
    decision = scene.decide()
    assert decision.action is NextAction.MIGRATE_TO_ON_DEMAND
    assert len(decision.moving) == 2 and "leaves" not in decision.moving


def test_a_node_whose_removal_is_only_considered_keeps_its_pods():
    decision = interrupted(taint="DeletionCandidateOfClusterAutoscaler").decide()
    assert decision.reason.code == "Settled"


def test_meanwhile_nobody_else_is_moved():
    scene = Scene(minimum="0")
    scene.running(8, 1)
    scene.add(on_demand_node("od-2", TAINTS[1]))
    scene.pod("leaves", node="od-2", mark=ON_DEMAND)
    decision = scene.decide()
    assert evicted(decision) == ["leaves"]
