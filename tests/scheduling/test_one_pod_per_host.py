"""Pods that may not share a host open their nodes at once, whatever their sizes: each a node of its own size, none beyond a limit."""

from __future__ import annotations

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import EXISTING, Constraint, Template
from plimsoll.scheduling.pack import pack
from tests.scheduling.cases import Case, Plan, node, offering, pod, read
from tests.scheduling.checker import illegal_steps, violations
from tests.scheduling.menus import HOST_PORTS, HOSTNAME, ZONE, Fragment, apart, container

APP = {"metadata": {"labels": {"app": "a"}}}
# Zones matter, too, though nobody is there whom the pods would avoid.
ALONE = apart(
    {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}},
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "nobody's"}}},
)
SIZES = {"small": "100m", "medium": "1500m", "large": "3"}  # CPU
NODES = {"small": ("1", 1.0), "medium": ("2", 2.0), "large": ("4", 4.0)}  # CPU and price


def asking(size: str) -> Fragment:
    return {"spec": {"containers": [container("main", {"cpu": SIZES[size], "memory": "100Mi"})]}}


def some(*sizes: str, rule: Fragment = ALONE) -> tuple[Pod, ...]:
    return tuple(pod(f"{size}-{n}", APP, rule, asking(size)) for n, size in enumerate(sizes))


def sold(zone: str = "", **more: object) -> Template:
    labels = {ZONE: zone} if zone else {}
    offerings = [
        offering(name + zone, {"cpu": cpu, "memory": "8Gi", "pods": "10"}, price, labels=labels, **more)
        for name, (cpu, price) in NODES.items()
    ]
    return Template(f"t{zone}", tuple(offerings))


def plan_for(case: Case) -> Plan:
    plan = read(case, pack(case.snapshot(), case.pending, case.templates, headroom=False))
    assert not illegal_steps(plan.before, plan.placements)
    assert not violations(plan.before, plan.placements)
    return plan


def made(plan: Plan) -> list[tuple[str, str]]:
    """By new node: the size of its pods, and what it is."""
    sizes = {uid: uid.removeprefix("uid-").partition("-")[0] for uid in plan.packing.placements}
    return sorted((" ".join(sizes[uid] for uid in new.pods), new.offering) for new in plan.packing.new_nodes)


def test_each_has_a_node_that_is_no_larger_than_it_needs() -> None:
    plan = plan_for(Case(pending=some("small", "large", "small", "medium"), templates=(sold(),)))
    assert made(plan) == [("large", "large"), ("medium", "medium"), ("small", "small"), ("small", "small")]


def test_so_have_those_that_want_the_same_port() -> None:
    plan = plan_for(Case(pending=some("small", "large", "large", rule=HOST_PORTS[0]), templates=(sold(),)))
    assert made(plan) == [("large", "large"), ("large", "large"), ("small", "small")]


def test_zones_get_as_many_each_over_all_sizes() -> None:
    zones = Template("t", (*sold("z1").offerings, *sold("z2").offerings))
    plan = plan_for(Case(pending=some("small", "medium", "large", "large"), templates=(zones,)))
    assert sorted(new.offering[-2:] for new in plan.packing.new_nodes) == ["z1", "z1", "z2", "z2"]


def test_a_limit_of_nodes_counts_over_all_zones_and_sizes() -> None:
    offerings = (*sold("z1").offerings, *sold("z2").offerings)
    limited = Template("t", offerings, max_nodes=3)
    plan = plan_for(Case(pending=some("small", "small", "medium", "large", "large"), templates=(limited,)))
    assert [size for size, _ in made(plan)] == ["large", "large", "medium"]
    assert {refusals["t"].rule for refusals in plan.packing.unplaced.values()} == {Constraint.LIMIT}


def test_a_limited_offering_is_sold_as_often_as_there_is_one() -> None:
    plan = plan_for(Case(pending=some("large", "large", "large", "small"), templates=(sold(available=1),)))
    assert [name for _, name in made(plan)] == ["large", "small"]
    assert len(plan.unplaced) == 2


def test_nodes_at_hand_come_first() -> None:
    at_hand = tuple(node(f"n{n}", {"cpu": "4", "memory": "8Gi", "pods": "10"}) for n in range(2))
    plan = plan_for(Case(nodes=at_hand, pending=some("small", "large", "medium"), templates=(sold(),)))
    assert {placement.node_name for placement in plan.placements} > {"n0", "n1"}
    assert len(plan.packing.new_nodes) == 1


def test_one_that_no_offering_holds_is_left_out_alone() -> None:
    small = Template("t", sold().offerings[:1])
    plan = plan_for(Case(pending=some("small", "large", "small"), templates=(small,)))
    assert made(plan) == [("small", "small"), ("small", "small")]
    assert [left.name for left in plan.unplaced] == ["large-1"]
    assert plan.packing.unplaced["uid-large-1"].keys() == {EXISTING, "t"}


def test_the_less_important_do_not_take_the_nodes_of_the_more_important() -> None:
    important = pod("medium-9", {"spec": {"priority": 10}}, asking("medium"))
    limited = Template("t", sold().offerings, max_nodes=2)
    plan = plan_for(Case(pending=(*some("large", "large", "large"), important), templates=(limited,)))
    assert important.uid in plan.packing.placements
    assert len(plan.packing.new_nodes) == 2
