"""StatefulSets: each pod has the class of its place, and the highest that is wrong moves first."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.spec import Policy
from plimsoll.controllers.placement.target import Share, class_at
from plimsoll.controllers.placement.workload import Managed
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import StatefulSet
from tests.placement.scene import ON_DEMAND, SPOT, Scene, codes, evicted

WRONG = {SPOT: ON_DEMAND, ON_DEMAND: SPOT}


def stateful(wrong: set[int], *, replicas: int = 6, spot: str = "50%", minimum: str = "1", **fields: Any) -> Scene:
    """A StatefulSet in which the ordinals in `wrong` run on the other class."""
    scene = Scene(replicas=replicas, spot=spot, minimum=minimum, stateful=True, **fields)
    share = Share(int(minimum), int(spot.rstrip("%")))
    for ordinal in range(replicas):
        here = class_at(ordinal, share)
        here = WRONG[here] if ordinal in wrong else here
        scene.pod(f"web-{ordinal}", node="spot-1" if here is SPOT else "od-1", mark=here)
    return scene


def test_every_pod_in_its_place_is_settled():
    assert stateful(set()).decide().reason.code == "Settled"


def test_the_highest_misplaced_ordinal_moves_first():
    decision = stateful({1, 2, 4, 5}).decide()
    assert decision.moving == ("web-5", "web-4", "web-2", "web-1")
    assert evicted(decision) == ["web-5"]


def test_a_misplaced_one_that_says_it_must_not_be_moved_is_not():
    scene = stateful({4, 5})
    scene.pod("web-5", node="od-1", mark=ON_DEMAND, annotations={"karpenter.sh/do-not-disrupt": "true"})
    assert scene.decide().moving == ("web-4",)


def test_two_that_should_change_places_are_seen_though_the_counts_are_right():
    decision = stateful({4, 5}).decide()
    assert decision.state is not None and not decision.state.needs_reconciliation
    assert decision.action is not NextAction.NONE
    assert evicted(decision) == ["web-5"]


def test_where_the_minimum_forbids_the_highest_the_one_that_helps_it_goes_first():
    """Positions: 0 on-demand, 1 spot. They are the other way round, and one must stay on-demand."""
    decision = stateful({0, 1}, replicas=2).decide()
    assert evicted(decision) == ["web-0"]
    assert decision.action is NextAction.MIGRATE_TO_ON_DEMAND


def test_an_update_that_is_not_everywhere_yet_comes_first():
    """An eviction would carry the update to the pod, past a partition or OnDelete."""
    decision = stateful({5}, status={"updateRevision": "web-b"}).decide()
    assert codes(decision) == ["RolloutInProgress"]


def test_ordinals_that_start_elsewhere_are_counted_from_there():
    share = Share(1, 50)
    body = {"metadata": {"name": "web"}, "spec": {"replicas": 4, "ordinals": {"start": 7}}}
    managed = Managed(convert(body, StatefulSet), Policy(share))
    for position in range(4):
        assert managed.class_of_ordinal(f"web-{7 + position}") is class_at(position, share)


@pytest.mark.parametrize("name", ["web", "other-3", "web-x", "web-²"])
def test_a_name_that_is_not_of_the_set_has_no_place(name: str):
    managed = Managed(stateful(set()).workload, Policy(Share(1, 50)))
    assert managed.class_of_ordinal(name) is None


def test_a_set_that_is_held_back_from_spot_keeps_its_on_demand_pods():
    scene = stateful({5})  # position 5 is spot's
    assert class_at(5, Share(1, 50)) is SPOT
    scene.spot_blocker(since=scene.now, until=scene.now.replace(year=2027))
    assert codes(scene.decide()) == ["SpotHeldBack"]
