"""What is only preferred decides between places that are equal otherwise, and never costs a pod its place."""

from __future__ import annotations

import pytest

from plimsoll.kube.types.core import Node, Pod
from plimsoll.scheduling.model import ComingNode, Template
from tests.scheduling import menus
from tests.scheduling.cases import Case, Plan, node, offering, plan_of, pod
from tests.scheduling.menus import HOSTNAME, ZONE, Fragment, evenly

A = menus.POD_LABELS[0]
SIZE = menus.SIZES[0]
ROOM = menus.CAPACITIES[3]
WITH_APP_A = {"labelSelector": {"matchLabels": {"app": "a"}}}


def preferring_node(key: str, value: str) -> Fragment:
    preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]}
    return {"spec": {"affinity": {"nodeAffinity": wish}}}


def preferring_company(kind: str, topology_key: str) -> Fragment:
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": topology_key, **WITH_APP_A}}
    return {"spec": {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}}


def nodes_of(plan: Plan) -> list[str]:
    return [placement.node_name for placement in plan.placements]


THREE = (node("n0", ROOM, zone="z1"), node("n1", ROOM, zone="z2", labels={"disk": "ssd"}), node("n2", ROOM, zone="z3"))


@pytest.mark.parametrize("order", [THREE, THREE[::-1], THREE[1:] + THREE[:1]])
def test_a_preferred_node(order: tuple[Node, ...]) -> None:
    plan = plan_of(Case(nodes=order, pending=(pod("p", SIZE, preferring_node("disk", "ssd")),)))
    assert nodes_of(plan) == ["n1"]


def test_preferred_company() -> None:
    there = pod("b", A, node="n2")
    wish = preferring_company("podAffinity", HOSTNAME)
    assert nodes_of(plan_of(Case(nodes=THREE, bound=(there,), pending=(pod("p", SIZE, wish),)))) == ["n2"]


def test_preferred_distance() -> None:
    there = (pod("b0", A, node="n0"), pod("b2", A, node="n2"))
    wish = preferring_company("podAntiAffinity", ZONE)
    assert nodes_of(plan_of(Case(nodes=THREE, bound=there, pending=(pod("p", SIZE, wish),)))) == ["n1"]


def test_preferred_evenness() -> None:
    wish = evenly({"topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"})
    pods = tuple(pod(f"p{n}", A, SIZE, wish) for n in range(6))
    assert sorted(nodes_of(plan_of(Case(nodes=THREE, pending=pods)))) == ["n0", "n0", "n1", "n1", "n2", "n2"]


def template(zone: str, price: float) -> Template:
    return Template(zone, (offering(f"o-{zone}", ROOM, price, labels={ZONE: zone}),))


def test_a_wish_decides_between_new_nodes_of_one_price() -> None:
    templates = (template("z1", 1.0), template("z2", 1.0))
    plan = plan_of(Case(pending=(pod("p", SIZE, preferring_node(ZONE, "z2")),), templates=templates))
    assert [new.template for new in plan.packing.new_nodes] == ["z2"]


def test_a_wish_is_no_reason_to_leave_a_pod_out() -> None:
    wishes: list[Pod] = [pod(f"p{n}", A, SIZE, preferring_company("podAntiAffinity", HOSTNAME)) for n in range(4)]
    plan = plan_of(Case(nodes=THREE[:1], pending=tuple(wishes)))
    assert nodes_of(plan) == ["n0"] * 4


def test_the_more_important_pod_takes_the_last_place() -> None:
    full = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    pods = (pod("plain", SIZE), pod("vital", SIZE, {"spec": {"priority": 1000}}))
    plan = plan_of(Case(nodes=(node("n", full),), pending=pods))
    assert [placement.pod.name for placement in plan.placements] == ["vital"]


def test_a_node_that_is_coming_is_filled_before_another_is_bought() -> None:
    capacity = offering("", {"cpu": "2", "memory": "4Gi", "pods": "10"}, 0).allocatable
    coming = ComingNode("soon", {HOSTNAME: "soon"}, capacity)
    pods = tuple(pod(f"p{n}", SIZE) for n in range(5))
    plan = plan_of(Case(pending=pods, templates=(template("z1", 1.0),), coming=(coming,)))
    assert nodes_of(plan).count("soon") == 4
    assert len(plan.packing.new_nodes) == 1
