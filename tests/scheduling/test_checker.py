"""The checker is trusted only because it catches what is planted: each rule broken on purpose, beside a twin that obeys."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.scheduling.brute_force import open_to, order_of, way_to_place
from tests.scheduling.cases import CLAIMS, NAMESPACES, VOLUMES, Case, pod
from tests.scheduling.checker import RULES, Placement, Situation, after, illegal_steps, violations
from tests.scheduling.first_fit import first_fit
from tests.scheduling.menus import ZONE, container, evenly, together
from tests.scheduling.scenes import APP_A, SCENES, SMALL, THREE_ZONES, A, B, N, Scene
from tests.scheduling.strategies import GATED, clusters, examples


def situation(scene: Scene) -> Situation:
    return Situation(scene.nodes, scene.bound, namespaces=NAMESPACES, claims=CLAIMS, volumes=VOLUMES)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.says)
def test_a_planted_fault_is_found_and_nothing_else(scene: Scene) -> None:
    placement = Placement(scene.pod, scene.nodes[0].name)
    as_a_step = {violation.rule for violation in illegal_steps(situation(scene), [placement])}
    in_the_end = {violation.rule for violation in violations(situation(scene), [placement])}
    assert as_a_step == ({scene.fault} if scene.fault else set())
    assert in_the_end == (as_a_step if scene.shows_in_the_end else set())


def test_every_rule_has_a_planted_fault_and_a_twin_that_obeys() -> None:
    assert {scene.fault for scene in SCENES} == {*RULES, ""}


def test_a_gated_pod_may_not_be_placed() -> None:
    assert [v.rule for v in violations(Situation(N), [Placement(pod("p", SMALL, GATED), "n")])] == ["gates"]


def test_pods_that_came_later_are_seen_in_the_final_state_only() -> None:
    """kube-scheduler never looks back, the final state does."""
    spread = pod("spread", A, evenly({"topologyKey": ZONE}))
    plain = pod("plain", A)
    steps = [Placement(spread, "n"), Placement(plain, "n")]
    assert not illegal_steps(Situation(THREE_ZONES), steps)
    assert [(v.pod.name, v.rule) for v in violations(Situation(THREE_ZONES), steps)] == [("spread", "topology-spread")]


def test_pods_that_wait_for_one_another_have_no_beginning() -> None:
    """Both rules hold once both are placed, yet neither pod could have been the first."""
    one = pod("one", A, together({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "b"}}}))
    two = pod("two", B, together({"topologyKey": ZONE, **APP_A}))
    steps = [Placement(one, "n"), Placement(two, "n")]
    assert not violations(Situation(N), steps)
    assert [(v.pod.name, v.rule) for v in illegal_steps(Situation(N), steps)] == [("one", "pod-affinity")]
    assert order_of(Situation(N), steps) is None
    assert way_to_place(Situation(N), [one, two]) is None


def test_brute_force_finds_the_one_order_and_the_one_place() -> None:
    """`follower` can only come second, and only where `leader` leaves room for it."""
    leader = pod("leader", A, {"spec": {"containers": [container("c", {"cpu": "1500m"})]}})
    follower = pod("follower", together({"topologyKey": ZONE, **APP_A}), {"spec": {"nodeSelector": {ZONE: "z2"}}})
    assert way_to_place(Situation(THREE_ZONES), [follower, leader]) == [
        Placement(leader, "m"),
        Placement(follower, "m"),
    ]
    assert way_to_place(Situation(THREE_ZONES), [follower, leader], but=["m"]) is None


@examples(60)
@given(clusters())
def test_what_first_fit_places_one_by_one_is_accepted_one_by_one(case: Case) -> None:
    answer = first_fit(case)
    assert not illegal_steps(answer.before, answer.placements)
    assert len(answer.placements) + len(answer.unplaced) == len(case.pending)


@examples(40)
@given(clusters(max_pending=3))
def test_a_plan_with_one_pod_moved_to_where_it_is_refused_is_caught(case: Case) -> None:
    answer = first_fit(case)
    for moved in answer.placements:
        others = [placement for placement in answer.placements if placement is not moved]
        state = after(answer.before, others)
        for name in state.nodes.keys() - set(open_to(state, moved.pod)):
            plan = [*others, Placement(moved.pod, name)]
            assert violations(answer.before, plan) or illegal_steps(answer.before, plan)
