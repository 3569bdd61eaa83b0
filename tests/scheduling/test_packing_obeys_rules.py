"""Every packing obeys every rule: kube-scheduler could follow it step by step, and the state that it ends in is lawful."""

from __future__ import annotations

from collections import Counter
from itertools import cycle

import msgspec
import pytest
from hypothesis import given

from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node
from plimsoll.scheduling.model import NewNode, Template
from plimsoll.scheduling.pack import pack
from tests.scheduling import k1, menus
from tests.scheduling.brute_force import LOWEST_PRIORITY_THAT_SCALES, open_to, with_one_more_node
from tests.scheduling.cases import Case, Plan, node, offering, plan_of, pod, read
from tests.scheduling.checker import Placement, Violation, after, illegal_steps, violations
from tests.scheduling.menus import ZONE, container, evenly, merge, together
from tests.scheduling.scenes import SCENES, Scene
from tests.scheduling.strategies import campaign, clusters, examples

TWO = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def check_plan(case: Case, plan: Plan) -> None:
    check_each_pod_is_answered_once(case, plan)
    illegal = illegal_steps(plan.before, plan.placements)
    assert not illegal, "; ".join(map(str, illegal))
    for violation in violations(plan.before, plan.placements):
        assert violation.rule == "topology-spread", str(violation)
        assert was_unavoidable(case, plan, violation), (
            f"{violation}, and the pods that came later could have gone elsewhere"
        )
    check_new_nodes(case, plan)


def check_each_pod_is_answered_once(case: Case, plan: Plan) -> None:
    pending = {pod.uid for pod in case.pending}
    placed, unplaced = set(plan.packing.placements), set(plan.packing.unplaced)
    assert placed | unplaced == pending
    assert not placed & unplaced
    assert {placement.node_name for placement in plan.placements} <= set(plan.before.nodes)


def was_unavoidable(case: Case, plan: Plan, violation: Violation) -> bool:
    """Whether each pod that was placed later would have disturbed as many wherever else it could have gone, by a plan that is as
    lawful: no node is made for a pod that is worth none, and no other rule is broken for the sake of a spread.

    kube-scheduler looks at a spread only when it places the pod that has it. The engine is stricter and lets a later
    pod disturb an earlier one only where it would otherwise stay unplaced.
    """
    position = next(n for n, placement in enumerate(plan.placements) if placement.pod is violation.pod)
    disturbed = len(violations(plan.before, plan.placements))
    for number, later in enumerate(plan.placements[position + 1 :], position + 1):
        others = (*plan.placements[:number], *plan.placements[number + 1 :])
        further = with_one_more_node(case, plan) if later.pod.spec.priority >= LOWEST_PRIORITY_THAT_SCALES else ()
        for before in (plan.before, *(larger for _, larger in further)):
            for name in open_to(after(before, others), later.pod, but=[later.node_name]):
                left = violations(before, (*others, Placement(later.pod, name)))
                if len(left) < disturbed and all(one.rule == "topology-spread" for one in left):
                    return False
    return True


def check_new_nodes(case: Case, plan: Plan) -> None:
    templates = {template.name: template for template in case.templates}
    pods = {pod.uid: pod for pod in case.pending}
    made, sold = Counter[str](), Counter[tuple[str, str]]()
    for new in plan.packing.new_nodes:
        made[new.template] += 1
        sold[new.template, new.offering] += 1
        assert new.pods and set(new.pods) == {uid for uid, name in plan.packing.placements.items() if name == new.name}
        assert any(pods[uid].spec.priority >= LOWEST_PRIORITY_THAT_SCALES for uid in new.pods), "bought for idlers"
        assert new.offering in new.candidates
        offerings = {offering.name: offering for offering in templates[new.template].offerings}
        assert new.price == offerings[new.offering].price
        prices = [offerings[name].price for name in new.candidates]
        assert prices == sorted(prices)
        held = {name: amount for name, amount in plan_use(plan, new).items() if amount}
        said = {
            name: amount.milli if name == "cpu" else amount.units for name, amount in new.requested.items() if amount
        }
        said.pop("pods", None)
        assert said == held
    for template in case.templates:
        assert template.max_nodes is None or made[template.name] <= template.max_nodes
        for one in template.offerings:
            assert one.available is None or sold[template.name, one.name] <= one.available
    names = [*plan.before.nodes]
    assert len(names) == len(case.nodes) + len(case.coming) + len(plan.packing.new_nodes), "two nodes of one name"


def plan_use(plan: Plan, new: NewNode) -> Counter[str]:
    return after(plan.before, plan.placements).used_on[new.name]


def check_candidates(case: Case, plan: Plan) -> None:
    """Each candidate of a new node would do in place of the one that was chosen."""
    for number, new in enumerate(plan.packing.new_nodes):
        for candidate in new.candidates:
            other = msgspec.structs.replace(new, offering=candidate)
            nodes = (*plan.packing.new_nodes[:number], other, *plan.packing.new_nodes[number + 1 :])
            swapped = read(case, msgspec.structs.replace(plan.packing, new_nodes=nodes))
            assert not illegal_steps(swapped.before, swapped.placements), f"{new.name} as {candidate}"


@pytest.mark.parametrize("scene", [scene for scene in SCENES if len(scene.nodes) == 1], ids=lambda scene: scene.says)
def test_the_only_node_is_used_exactly_where_it_may_be(scene: Scene) -> None:
    case = Case(nodes=tuple(scene.nodes), bound=tuple(scene.bound), pending=(scene.pod,))
    placements = pack(case.snapshot(), case.pending).placements
    assert placements == ({} if scene.fault else {scene.pod.uid: scene.nodes[0].name})


@examples(90)
@given(clusters())
def test_generated_clusters(case: Case) -> None:
    plan = plan_of(case)
    check_plan(case, plan)
    check_candidates(case, plan)


@examples(30)
@given(clusters(max_nodes=0, max_pending=10, max_bound=0))
def test_generated_clusters_of_new_nodes_only(case: Case) -> None:
    plan = plan_of(case)
    check_plan(case, plan)
    check_candidates(case, plan)


@pytest.mark.soak
@campaign(20_000)
@given(clusters(max_nodes=5, max_pending=10, max_bound=8, max_templates=3))
def test_many_more_clusters(case: Case) -> None:
    plan = plan_of(case)
    check_plan(case, plan)
    check_candidates(case, plan)


@examples(30)
@given(clusters())
def test_the_same_question_has_the_same_answer_and_leaves_the_snapshot_as_it_was(case: Case) -> None:
    snapshot = case.snapshot()
    first = pack(snapshot, case.pending, case.templates, coming=case.coming)
    again = pack(snapshot, case.pending, case.templates, coming=case.coming)
    anew = pack(case.snapshot(), case.pending, case.templates, coming=case.coming)
    assert first == again == anew
    assert list(first.placements) == list(again.placements) == list(anew.placements)


def test_pods_whose_spread_a_later_one_breaks_are_looked_at_again() -> None:
    """The pod with a GPU can go to z3 only, where it is one too many for those that were there before it."""
    with_gpu = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"}
    wants_gpu = {"example.com/gpu": "1", "cpu": "100m"}
    gpu = {"spec": {"containers": [container("gpu", wants_gpu)]}}
    spread = evenly({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}})
    a, b = ({"metadata": {"labels": {"app": app}}} for app in "ab")
    case = Case(
        nodes=(node("n0", zone="z1"), node("n1", zone="z3"), node("n2", with_gpu, zone="z3")),
        bound=(pod("there", menus.SIZES[0], a, node="n1"),),
        pending=(pod("gpu", a, gpu), *(pod(f"p{n}", menus.SIZES[0], b, spread) for n in range(2))),
    )
    plan = plan_of(case)
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


APP_A = {"metadata": {"labels": {"app": "a"}}}
IN_ZONES, ON_HOSTS = menus.SPREAD[0], menus.SPREAD[1]  # of pods with the label of APP_A
NOTHING = menus.SIZES[6]


def test_what_cannot_be_kept_is_no_reason_to_break_more() -> None:
    """The zone has one too many wherever the late pod goes; the host need not have."""
    case = Case(
        nodes=(node("cordoned", zone="z2", unschedulable=True),),
        pending=(pod("late", NOTHING, APP_A), pod("zones", NOTHING, APP_A, IN_ZONES), pod("hosts", NOTHING, ON_HOSTS)),
        templates=(Template("t", (offering("o", TWO, 0.1, labels={ZONE: "z3"}),)),),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced
    assert [violation.pod.name for violation in violations(plan.before, plan.placements)] == ["zones"]


def test_one_too_many_goes_where_it_disturbs_fewest() -> None:
    """Six pods over two zones and three hosts: three of them mind zones, two of these hosts, too."""
    both = menus.SPREAD[11]
    case = Case(
        nodes=(
            node("n1", menus.CAPACITIES[2], zone="z3"),
            node("n3", menus.CAPACITIES[2], zone="z1"),
            node("n4", zone="z1"),
        ),
        pending=(
            *(pod(f"anywhere-{n}", NOTHING, APP_A) for n in range(3)),
            *(pod(f"both-{n}", NOTHING, APP_A, both) for n in range(2)),
            pod("zones", NOTHING, APP_A, menus.SPREAD[9]),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced


def test_a_pod_that_is_nobodys_surplus_fills_the_emptiest_host() -> None:
    """Two that stay together are one too many for their host, unless the third leaves the node that nobody counts."""
    affinity_group = together({"topologyKey": menus.HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}})
    no_host = convert(
        {
            "metadata": {"name": "n0", "uid": "uid-n0"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3"}},
        },
        Node,
    )
    case = Case(
        nodes=(no_host, node("n2", menus.CAPACITIES[3]), node("n3", menus.CAPACITIES[4])),
        pending=(
            *(pod(f"pair-{n}", NOTHING, APP_A, affinity_group) for n in range(2)),
            *(pod(f"spread-{n}", NOTHING, menus.HOST_PORTS[0], ON_HOSTS) for n in range(2)),
            pod("alone", NOTHING, APP_A),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


def test_a_further_zone_is_opened_where_it_keeps_a_spread_with_min_domains() -> None:
    """Two must be in the zone of the first, which may have two only when two more zones have one each."""
    with_b_or_c = together(menus.NEIGHBOURS[3])
    case = Case(
        pending=(
            *(pod(f"anywhere-{n}", NOTHING, APP_A) for n in range(2)),
            pod("three-zones", NOTHING, {"metadata": {"labels": {"app": "c"}}}, menus.SPREAD[5]),
            *(pod(f"company-{n}", NOTHING, APP_A, with_b_or_c) for n in range(2)),
        ),
        templates=(
            Template("t", tuple(offering(f"in-{z}", TWO, 0.35, labels={ZONE: z}) for z in ("z1", "z2"))),
            Template("cheap", (offering("in-z3", TWO, 0.1, labels={ZONE: "z3"}),)),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


def test_a_pod_leaves_the_zone_that_company_has_crowded() -> None:
    """Two that stay together crowd the zone of two that mind; one of these finds another zone, where a node can be made."""
    affinity_group = together({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}})
    minds = menus.merge(menus.SIZES[2], menus.HOST_PORTS[1], IN_ZONES)
    case = Case(
        nodes=(
            node("n0", menus.CAPACITIES[1], zone="z3"),
            node("n1", menus.CAPACITIES[3], zone="z3"),
            node("n2", TWO, zone="z2"),
        ),
        pending=(
            pod("port", NOTHING, menus.HOST_PORTS[1]),
            *(pod(f"minds-{n}", minds, menus.INIT[1]) for n in range(2)),
            *(pod(f"company-{n}", NOTHING, APP_A, affinity_group) for n in range(2)),
        ),
        templates=(Template("t", (offering("in-z1", menus.CAPACITIES[1], 0.1, labels={ZONE: "z1"}, available=1),)),),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced


def test_those_that_others_disturb_may_come_last() -> None:
    """Three that mind take the hosts that company of the others needs: no move of one pod helps, another order does."""
    affinity_group = together({"topologyKey": menus.HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}})
    large = menus.CAPACITIES[3]
    case = Case(
        nodes=(
            node("n0", menus.CAPACITIES[1]),
            node("n1", large),
            node("n2", large),
            node("n3", menus.CAPACITIES[4]),
        ),
        bound=(pod("there", NOTHING, APP_A, node="n1"),),
        pending=(
            *(pod(f"company-{n}", menus.SIZES[2], APP_A, affinity_group) for n in range(2)),
            *(pod(f"minds-{n}", NOTHING, menus.HOST_PORTS[0], menus.SPREAD[8]) for n in range(3)),
            pod("larger", menus.SIZES[1], APP_A),
            pod("small", NOTHING, APP_A),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


def test_after_another_order_single_pods_move_again() -> None:
    """Zones and hosts cannot both be kept; those that come last find a place, and then one move still spares a pod."""
    large = menus.CAPACITIES[3]
    case = Case(
        nodes=(
            node("n0", large, zone="z3"),
            node("n1", menus.CAPACITIES[1], zone="z2"),
            node("n2", large, zone="z2"),
            node("n3", large, zone="z2"),
        ),
        pending=(
            *(pod(f"anywhere-{n}", NOTHING, APP_A) for n in range(4)),
            *(pod(f"hosts-{n}", NOTHING, APP_A, ON_HOSTS) for n in range(2)),
            pod("both", NOTHING, APP_A, menus.SPREAD[11]),
            pod("zones", menus.SIZES[2], APP_A, IN_ZONES),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced


def test_one_that_is_company_for_itself_comes_before_its_like() -> None:
    """Its like would rather be in the other zone, which keeps the spread; after them it would have to join them there."""
    b = {"metadata": {"labels": {"app": "b"}}}
    case = Case(
        nodes=(
            node("n0", menus.CAPACITIES[4], zone="z2"),
            node("n1", menus.CAPACITIES[2], zone="z3", taints=(menus.TAINTS[0],)),
        ),
        pending=(
            pod("company", NOTHING, b, together(menus.NEIGHBOURS[5])),
            pod("minds", NOTHING, menus.POD_LABELS[4], menus.SPREAD[3]),
            *(pod(f"anywhere-{n}", NOTHING, b, menus.TOLERATIONS[4]) for n in range(2)),
        ),
    )
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


def test_the_first_of_a_group_goes_where_the_others_can_follow() -> None:
    affinity_group = together({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}})
    sold = [
        ("spot", "z1", 2.0),
        ("on-demand", "z1", 3.0),
        ("on-demand", "z2", 1.0),
    ]  # no spot in z2, where it is cheapest
    template = Template(
        "t", tuple(offering(f"{kind}-{z}", TWO, price, labels={"kind": kind, ZONE: z}) for kind, z, price in sold)
    )
    wanting = tuple(
        pod(
            f"{kind}-{n}",
            menus.SIZES[1],
            {"metadata": {"labels": {"app": "a"}}, "spec": {"nodeSelector": {"kind": kind}}},
            affinity_group,
        )
        for kind in ("on-demand", "spot")
        for n in range(2)
    )
    case = Case(pending=wanting, templates=(template,))
    plan = plan_of(case)
    check_plan(case, plan)
    assert not plan.unplaced


def test_diverse_pods_of_two_kinds_of_node_break_nothing() -> None:
    """Half of them ask for spot and half for on-demand: spreads of the one half do not see the nodes of the other."""
    halves = ({"spec": {"nodeSelector": {k1.CAPACITY_TYPE: kind}}} for kind in cycle(("spot", "on-demand")))
    pods = tuple(
        pod(m["metadata"]["name"], merge(m, half)) for m, half in zip(k1.manifests(600, 1), halves, strict=False)
    )
    case = Case(pending=pods, templates=(k1.template(60),))
    plan = plan_of(case)
    assert not plan.unplaced
    assert not illegal_steps(plan.before, plan.placements)
    assert not violations(plan.before, plan.placements)


def test_diverse_pods_break_nothing_at_all() -> None:
    case = k1.case(250, seed=1)
    plan = plan_of(case)
    assert not plan.unplaced
    assert not illegal_steps(plan.before, plan.placements)
    assert not violations(plan.before, plan.placements)
    check_new_nodes(case, plan)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_many_diverse_pods_break_nothing_at_all(seed: int) -> None:
    plan = plan_of(k1.case(2000, seed))
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)


PREFERS_SPOT = {"matchExpressions": [{"key": k1.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}]}
WISH = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": PREFERS_SPOT}]}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_diverse_pods_with_a_wish_break_nothing_at_all(seed: int) -> None:
    """With preferences pods are placed one by one: late ones must not crowd zones over which early ones are spread."""
    wish = {"spec": {"affinity": {"nodeAffinity": WISH}}}
    pods = tuple(pod(m["metadata"]["name"], merge(m, wish)) for m in k1.manifests(300, seed))
    plan = plan_of(Case(pending=pods, templates=(k1.template(60),)))
    assert not plan.unplaced
    assert not violations(plan.before, plan.placements)
