"""StatefulSets: counts decide whether a pod moves, ordinals decide which; recreated pods take the class that is short."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.admission.classify import ClassAssigned
from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.spec import Policy
from plimsoll.controllers.placement.target import CapacityClass, Rounding, Share, class_at, target
from plimsoll.controllers.placement.workload import Managed
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import StatefulSet
from plimsoll.kube.types.resources import PODS, STATEFULSETS
from tests import build
from tests.placement import admission_scene
from tests.placement.admission_scene import annotations_of, asking, review
from tests.placement.scene import ON_DEMAND, SPOT, Scene, codes, evicted

OTHER = {SPOT: ON_DEMAND, ON_DEMAND: SPOT}


def stateful(
    other: set[int], *, replicas: int = 6, spot: str = "50%", minimum: str = "1", pods: int | None = None, **fields: Any
) -> Scene:
    """A StatefulSet in which the ordinals in `other` run on the other class than that of their ordinal."""
    scene = Scene(replicas=replicas, spot=spot, minimum=minimum, stateful=True, **fields)
    share = Share(int(minimum), int(spot.rstrip("%")))
    for ordinal in range(replicas if pods is None else pods):
        here = class_at(ordinal, share)
        here = OTHER[here] if ordinal in other else here
        scene.pod(f"web-{ordinal}", node="spot-1" if here is SPOT else "od-1", mark=here)
    return scene


def test_every_pod_on_the_class_of_its_ordinal_is_settled():
    assert stateful(set()).decide().reason.code == "Settled"


@pytest.mark.parametrize("other", [{4, 5}, {1, 2, 4, 5}, {0, 1}])
def test_nothing_moves_while_the_counts_are_right(other: set[int]):
    decision = stateful(other).decide()
    assert (decision.reason.code, decision.action, decision.moving) == ("Settled", NextAction.NONE, ())


def test_a_smaller_share_moves_as_many_as_the_drift():
    """60 % to 50 % of ten: one pod moves, not five."""
    scene = Scene(replicas=10, spot="50%", minimum="0", stateful=True)
    for ordinal in range(10):
        here = class_at(ordinal, Share(0, 60))
        scene.pod(f"web-{ordinal}", node="spot-1" if here is SPOT else "od-1", mark=here)
    decision = scene.decide()
    assert len(decision.moving) == 1
    assert evicted(decision) == list(decision.moving)


def test_a_higher_minimum_with_the_same_target_moves_nothing():
    scene = Scene(replicas=6, spot="50%", minimum="3", stateful=True)
    for ordinal in range(6):
        here = class_at(ordinal, Share(0, 50))
        scene.pod(f"web-{ordinal}", node="spot-1" if here is SPOT else "od-1", mark=here)
    assert target(6, Share(3, 50)) == target(6, Share(0, 50))
    assert scene.decide().moving == ()


def test_the_total_is_fixed_before_the_split():
    """8 to 3 with pods still to be deleted: Kubernetes removes the highest ordinals, and nothing is evicted meanwhile."""
    decision = stateful({5}, replicas=3, pods=8).decide()
    assert decision.actions == ()
    assert decision.action in (NextAction.SCALE_DOWN_SPOT, NextAction.SCALE_DOWN_ON_DEMAND)


def test_of_the_class_in_excess_the_highest_ordinal_on_the_wrong_class_moves_first():
    """Ordinals 1, 3 and 5 belong on spot. 3 and 5 run on-demand: two moves, and 4 is not among them."""
    decision = stateful({3, 5}).decide()
    assert decision.moving == ("web-5", "web-3")
    assert evicted(decision) == ["web-5"]


def test_if_every_candidate_has_the_class_of_its_ordinal_the_highest_moves():
    """Ordinal 3 keeps its place on-demand for itself; ordinal 4, on-demand by its ordinal, moves instead."""
    scene = stateful({5})
    scene.pod("web-5", node="od-1", mark=ON_DEMAND, annotations={"karpenter.sh/do-not-disrupt": "true"})
    assert scene.decide().moving == ("web-4",)


def test_a_scale_down_that_broke_the_minimum_is_repaired_by_a_move_that_says_so():
    """The highest ordinals were the on-demand ones: two are left, both on spot, and the minimum is one."""
    scene = Scene(replicas=2, spot="50%", minimum="1", stateful=True)
    for ordinal in range(2):
        scene.pod(f"web-{ordinal}", node="spot-1", mark=SPOT)
    decision = scene.decide()
    assert evicted(decision) == ["web-0"], "whose ordinal belongs on-demand"
    assert decision.action is NextAction.MIGRATE_TO_ON_DEMAND
    assert "loses its highest ordinals" in decision.reason.message


shares = st.builds(Share, st.integers(0, 30), st.integers(0, 100), st.just(Rounding.DOWN))


@given(st.integers(2, 24), shares, st.lists(st.booleans(), min_size=24, max_size=24), st.booleans())
def test_the_number_of_moves_is_the_drift_and_the_split_is_exact_after_them(
    replicas: int, share: Share, on_spot: list[bool], stateful_set: bool
):
    if share.min_on_demand > replicas:
        share = Share(replicas, share.spot_percentage)
    scene = Scene(
        replicas=replicas, spot=f"{share.spot_percentage}%", minimum=str(share.min_on_demand), stateful=stateful_set
    )
    for ordinal in range(replicas):
        here = SPOT if on_spot[ordinal] else ON_DEMAND
        scene.pod(f"web-{ordinal}", node="spot-1" if here is SPOT else "od-1", mark=here)
    wanted, spot = target(replicas, share), sum(on_spot[:replicas])
    decision = scene.decide()
    assert len(decision.moving) == abs(spot - wanted.spot)
    moved = {name: OTHER[SPOT if on_spot[int(name.rpartition("-")[2])] else ON_DEMAND] for name in decision.moving}
    after = [moved.get(f"web-{n}", SPOT if on_spot[n] else ON_DEMAND) for n in range(replicas)]
    assert after.count(SPOT) == wanted.spot
    assert after.count(ON_DEMAND) >= share.min_on_demand


# ── admission ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Sets:
    """A StatefulSet whose pods are created and recreated one by one."""

    def __init__(self, replicas: int, spot: int, minimum: int = 0) -> None:
        self.stateful_set = build.stateful_set(replicas=replicas, annotations=asking(f"{spot}%", str(minimum)))
        self.scene = admission_scene.Scene(self.stateful_set)

    def annotate(self, spot: int, minimum: int = 0) -> None:
        self._put(build.stateful_set(replicas=self.stateful_set.spec.replicas, uid=self.stateful_set.uid,
                                     annotations=asking(f"{spot}%", str(minimum))))  # fmt: skip

    def scale(self, replicas: int) -> None:
        self._put(build.stateful_set(replicas=replicas, uid=self.stateful_set.uid,
                                     annotations=self.stateful_set.annotations))  # fmt: skip

    def _put(self, changed: StatefulSet) -> None:
        self.stateful_set = changed
        self.scene.view[STATEFULSETS].put(changed)

    def create(self, ordinal: int, *, appears: bool = True) -> tuple[CapacityClass, PlacementReason]:
        name = f"{self.stateful_set.name}-{ordinal}"
        self.delete(ordinal)
        answer = self.scene.ask(review(self.stateful_set, name=name))
        assert isinstance(answer, ClassAssigned), answer
        if appears:
            self.scene.view[PODS].put(
                build.pod(name, owner=self.stateful_set, node="", phase="Pending", annotations=annotations_of(answer))
            )
        return answer.assignment.capacity_class, answer.assignment.why

    def delete(self, ordinal: int) -> None:
        self.scene.view[PODS].remove("default", f"{self.stateful_set.name}-{ordinal}")

    def classes(self) -> list[CapacityClass]:
        return [CapacityClass(pod.annotations["plimsoll.dev/placement-class"]) for pod in self.scene.view[PODS]]


@given(st.integers(1, 20), st.integers(0, 100), st.integers(0, 5), st.booleans())
def test_at_first_creation_every_pod_has_the_class_of_its_ordinal(
    replicas: int, spot: int, minimum: int, in_view: bool
):
    minimum = min(minimum, replicas)
    made = Sets(replicas, spot, minimum)
    for ordinal in range(replicas):
        got = made.create(ordinal, appears=in_view)
        assert got == (class_at(ordinal, Share(minimum, spot)), PlacementReason.ORDINAL)


def test_a_recreated_pod_takes_the_class_that_is_short():
    """Ten at 60 %, now 50 %: one spot pod too many. Whichever spot pod is recreated becomes on-demand, and no other does."""
    made = Sets(10, 60)
    for ordinal in range(10):
        made.create(ordinal)
    made.annotate(50)
    spot = [n for n in range(10) if class_at(n, Share(0, 60)) is SPOT]
    assert made.create(spot[0]) == (ON_DEMAND, PlacementReason.SHARE)
    for ordinal in spot[1:]:
        assert made.create(ordinal)[0] is SPOT
    assert made.classes().count(SPOT) == 5


@given(st.integers(1, 12), st.integers(0, 100), st.integers(0, 100), st.lists(st.integers(0, 11), max_size=30))
def test_restarts_flip_no_class_once_the_split_is_exact(replicas: int, first: int, then: int, restarts: list[int]):
    made = Sets(replicas, first)
    for ordinal in range(replicas):
        made.create(ordinal)
    made.annotate(then)
    wanted, before = target(replicas, Share(0, then)), made.classes().count(SPOT)
    exact = before == wanted.spot
    for ordinal in restarts:
        made.create(ordinal % replicas)
        now = made.classes().count(SPOT)
        assert abs(now - wanted.spot) <= abs(before - wanted.spot), "a restart never widens the drift"
        if exact:
            assert now == wanted.spot
        before, exact = now, now == wanted.spot


def test_pods_that_a_scale_down_will_delete_do_not_count():
    made = Sets(8, 50)
    for ordinal in range(8):
        made.create(ordinal)
    made.scale(2)
    assert made.create(1)[0] is class_at(1, Share(0, 50))


def test_a_pod_that_was_refused_after_admission_counts_once():
    made = Sets(4, 50)
    made.create(0)
    for _ in range(3):
        assert made.create(1, appears=False)[0] is SPOT
    assert len(made.scene.admission.ledger) == 1 + (
        made.scene.admission.ledger.pending(made.stateful_set.uid).total - 1
    )
    assert [made.create(n)[0] for n in (1, 2, 3)] == [SPOT, ON_DEMAND, SPOT]


# ── rollouts, ordinals, backoff ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_update_that_is_not_everywhere_yet_comes_first():
    """An eviction would carry the update to the pod, past a partition or OnDelete."""
    decision = stateful({5}, status={"updateRevision": "web-b", "updatedReplicas": 3}).decide()
    assert codes(decision) == ["RolloutInProgress"]


def test_an_on_delete_update_that_is_everywhere_is_complete():
    """Before Kubernetes 1.37 `currentRevision` never advances with OnDelete; `updatedReplicas` tells."""
    decision = stateful({5}, status={"updateRevision": "web-b", "updatedReplicas": 6}).decide()
    assert evicted(decision) == ["web-5"]


def test_ordinals_that_start_elsewhere_are_counted_from_there():
    share = Share(1, 50)
    body = {"metadata": {"name": "web"}, "spec": {"replicas": 4, "ordinals": {"start": 7}}}
    managed = Managed(convert(body, StatefulSet), Policy(share))
    for position in range(4):
        assert managed.class_of_ordinal(f"web-{7 + position}") is class_at(position, share)


@pytest.mark.parametrize("name", ["web", "other-3", "web-x", "web-²"])
def test_a_name_that_is_not_of_the_set_has_no_class(name: str):
    managed = Managed(stateful(set()).workload, Policy(Share(1, 50)))
    assert managed.class_of_ordinal(name) is None


def test_a_set_that_backs_off_from_spot_keeps_its_on_demand_pods():
    scene = stateful({5})  # ordinal 5 belongs on spot
    assert class_at(5, Share(1, 50)) is SPOT
    scene.backs_off(since=scene.now, until=scene.now.replace(year=2027))
    assert codes(scene.decide()) == ["SpotHeldBack"]
