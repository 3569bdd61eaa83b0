"""A pod that is left out can go nowhere: every node and every offering is tried, and every reason that is given holds."""

from __future__ import annotations

import pytest
from hypothesis import given

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import EXISTING, Constraint, Template
from tests.scheduling import menus
from tests.scheduling.brute_force import LOWEST_PRIORITY_THAT_SCALES, place_for
from tests.scheduling.cases import Case, Plan, node, offering, plan_of, pod
from tests.scheduling.checker import after
from tests.scheduling.strategies import GATED, NOT_WORTH_A_NODE, campaign, clusters, examples
from tests.scheduling.words import ENGINE


def check_refusals(case: Case, plan: Plan) -> None:
    for left_out in plan.unplaced:
        place = place_for(case, plan, left_out)
        assert place is None, f"{left_out.name} could go to {place}; refused by {plan.packing.unplaced[left_out.uid]}"
        check_reasons(case, plan, left_out)


def check_reasons(case: Case, plan: Plan, left_out: Pod) -> None:
    reasons = plan.packing.unplaced[left_out.uid]
    if left_out.spec.scheduling_gates:
        assert {reason.rule for reason in reasons.values()} == {Constraint.GATED}
        return
    assert set(reasons) == {EXISTING, *(template.name for template in case.templates)}
    final = after(plan.before, plan.placements)
    if final.nodes and reasons[EXISTING].rule is not Constraint.NODE_UNKNOWN:
        asked = final.ask(left_out)
        broken = {rule for place in final.nodes.values() for rule in asked.refusals(place)}
        assert ENGINE[reasons[EXISTING].rule] & broken, str(reasons[EXISTING])
    for template in case.templates:
        check_reason_of_template(case, plan, left_out, template)


def check_reason_of_template(case: Case, plan: Plan, left_out: Pod, template: Template) -> None:
    reason = plan.packing.unplaced[left_out.uid][template.name]
    made = [new for new in plan.packing.new_nodes if new.template == template.name]
    if reason.rule is Constraint.PRIORITY:
        assert left_out.spec.priority < LOWEST_PRIORITY_THAT_SCALES
    elif reason.rule is Constraint.LIMIT:
        assert template.max_nodes is not None and len(made) >= template.max_nodes
    elif reason.rule is Constraint.OFFERING:
        sold = [new.offering for new in made]
        assert any(o.available is not None and sold.count(o.name) >= o.available for o in template.offerings)
    else:
        broken = set()
        for candidate in template.offerings:
            larger = after(plan.before, plan.placements)
            fresh = case.make_node(larger, "one-more", template, candidate)
            broken |= set(larger.ask(left_out).refusals(fresh))
        assert ENGINE[reason.rule] & broken, f"{left_out.name} on {template.name}: {reason}, but broken: {broken}"


@examples(90)
@given(clusters(max_pending=4))
def test_generated_clusters(case: Case) -> None:
    check_refusals(case, plan_of(case))


@pytest.mark.soak
@campaign(20_000)
@given(clusters(max_nodes=5, max_pending=8, max_templates=3))
def test_many_more_clusters(case: Case) -> None:
    check_refusals(case, plan_of(case))


LARGE = offering("large", menus.CAPACITIES[3], 1.0)


def test_a_gated_pod_waits_even_beside_an_empty_node() -> None:
    plan = plan_of(Case(nodes=(node("n"),), pending=(pod("p", GATED),), templates=(Template("t", (LARGE,)),)))
    assert [p.name for p in plan.unplaced] == ["p"]
    assert {r.rule for r in plan.packing.unplaced["uid-p"].values()} == {Constraint.GATED}


def test_a_pod_of_lowest_priority_takes_room_but_buys_none() -> None:
    small = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    pods = tuple(pod(f"p{n}", menus.SIZES[0], NOT_WORTH_A_NODE) for n in range(3))
    plan = plan_of(Case(nodes=(node("n", small),), pending=pods, templates=(Template("t", (LARGE,)),)))
    assert [p.node_name for p in plan.placements] == ["n", "n"]
    assert [r["t"].rule for r in plan.packing.unplaced.values()] == [Constraint.PRIORITY]
    assert not plan.packing.new_nodes


def test_a_pod_of_lowest_priority_may_share_what_another_buys() -> None:
    pods = (pod("idler", menus.SIZES[0], NOT_WORTH_A_NODE), pod("worker", menus.SIZES[0]))
    plan = plan_of(Case(pending=pods, templates=(Template("t", (LARGE,)),)))
    assert len(plan.packing.new_nodes) == 1
    assert not plan.unplaced


def test_a_pod_of_lowest_priority_does_not_take_what_another_gave_up() -> None:
    """Two that want the same port of the same host: a node was opened for the second in vain, and is not made for an idler."""
    port = menus.HOST_PORTS[0]
    together = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": menus.HOSTNAME}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [together]}}
    pair = [
        pod(name, menus.SIZES[0], menus.POD_LABELS[0], port, {"spec": {"affinity": affinity}}) for name in ("a", "b")
    ]
    idler = pod("idler", menus.SIZES[0], menus.POD_LABELS[0], port, NOT_WORTH_A_NODE)
    plan = plan_of(Case(pending=(*pair, idler), templates=(Template("t", (LARGE,)),)))
    assert [new.pods for new in plan.packing.new_nodes] == [("uid-a",)]
    assert plan.packing.unplaced.keys() == {"uid-b", "uid-idler"}


def test_a_node_opened_in_vain_is_nobodys_empty_host() -> None:
    """Two that want to share a host and be spread over hosts: a second node, made for neither, must not keep them apart."""
    spread = menus.evenly({"topologyKey": menus.HOSTNAME})
    pair = tuple(
        pod(f"p{n}", menus.SIZES[0], menus.POD_LABELS[0], menus.together(menus.NEIGHBOURS[1]), spread) for n in range(2)
    )
    case = Case(pending=pair, templates=(Template("t", (LARGE,)),))
    plan = plan_of(case)
    assert not plan.unplaced
    assert len(plan.packing.new_nodes) == 1


def test_the_daemon_of_a_node_that_is_not_made_keeps_nobody_out() -> None:
    """The second needs a node in the zone of the first, whose daemon and the first must not be together: the first stays."""
    daemon = pod("daemon", menus.SIZES[0], {"metadata": {"labels": {"app": "c"}}})
    first = pod("first", menus.SIZES[2], menus.POD_LABELS[0], menus.apart(menus.NEIGHBOURS[3]))
    second = pod("second", menus.SIZES[1], menus.together(menus.NEIGHBOURS[0]))
    in_z1 = offering("in-z1", menus.CAPACITIES[2], 0.35, labels={menus.ZONE: "z1"})
    plan = plan_of(
        Case(
            nodes=(node("n", zone="z1"),),
            pending=(second, first),
            templates=(Template("t", (in_z1,), daemons=(daemon,)),),
        )
    )
    assert [(placement.pod.name, placement.node_name) for placement in plan.placements] == [("first", "n")]
    assert plan.packing.unplaced["uid-second"]["t"].rule is Constraint.EXISTING_ANTI_AFFINITY


def test_a_daemon_is_no_company_on_a_node_without_the_label() -> None:
    daemon = pod("daemon", menus.SIZES[0])
    case = Case(
        pending=(pod("p", {"metadata": {"labels": {"tier": "x"}}}, menus.together(menus.NEIGHBOURS[5])),),
        templates=(Template("t", (LARGE,), daemons=(daemon,)),),
    )
    plan = plan_of(case)
    check_refusals(case, plan)
    assert plan.packing.unplaced["uid-p"]["t"].rule is Constraint.POD_AFFINITY


@pytest.mark.parametrize("priority", [-10, -1, 0, 1000])
def test_from_minus_ten_up_a_pod_is_worth_a_node(priority: int) -> None:
    plan = plan_of(Case(pending=(pod("p", {"spec": {"priority": priority}}),), templates=(Template("t", (LARGE,)),)))
    assert not plan.unplaced


@pytest.mark.parametrize("wish", menus.WISHES)
def test_wishes_that_cannot_be_met_keep_nobody_waiting(wish: menus.Fragment) -> None:
    at_hand = node("n", zone="z1")
    crowded = tuple(pod(f"b{n}", menus.POD_LABELS[0], node="n") for n in range(3))
    plan = plan_of(Case(nodes=(at_hand,), bound=crowded, pending=(pod("p", menus.POD_LABELS[0], wish),)))
    assert [placement.node_name for placement in plan.placements] == ["n"]
