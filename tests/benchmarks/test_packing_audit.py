"""The benchmark's quick audit of a plan finds what the slow checker finds, in plans that are right and in spoilt ones."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from benchmarks.packing import workloads
from benchmarks.packing.audit import broken_rules
from benchmarks.packing.measure import new_nodes, placements_of
from plimsoll.kube.types.core import Node, NodeStatus, Pod
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot
from tests.scheduling import cases, menus
from tests.scheduling.checker import Placement, Situation, violations


def by_checker(nodes: list[Node], placements: list[Placement]) -> Counter[str]:
    return Counter(violation.rule for violation in violations(Situation(nodes), placements))


def planned(pods: int, seed: int) -> tuple[list[Node], list[Placement]]:
    template = workloads.diverse_types()
    waiting = workloads.decoded(workloads.diverse_pods(pods, seed), Pod)
    packing = pack(Snapshot.build((), ()), waiting, (template,))
    return new_nodes(packing, template), placements_of(packing, waiting)


def test_a_plan_of_ours_breaks_nothing() -> None:
    nodes, placements = planned(100, 1)
    assert len(placements) == 100
    assert not broken_rules(nodes, placements)
    assert not by_checker(nodes, placements)


@pytest.mark.parametrize("seed", range(6))
def test_both_find_the_same_in_a_plan_with_pods_in_wrong_places(seed: int) -> None:
    draw = Random(seed)
    nodes, placements = planned(80, seed)
    for position in draw.sample(range(len(placements)), 12):
        placements[position] = placements[position]._replace(node_name=draw.choice(nodes).name)
    found = broken_rules(nodes, placements)
    assert found
    assert found == by_checker(nodes, placements)


@pytest.mark.parametrize("seed", range(6))
def test_both_find_the_same_where_pods_lie_anywhere(seed: int) -> None:
    draw = Random(seed)
    nodes = [cases.node(f"n{i}", zone=f"z{i % 3}" if i else "") for i in range(7)]
    nodes.append(cases.node("cordoned", zone="z1", unschedulable=True))
    nodes.append(cases.node("tainted", zone="z2", taints=[{"key": "k", "effect": "NoSchedule"}]))
    menu = [*menus.SPREAD, *menus.AFFINITY, *menus.ANTI_AFFINITY]
    placements = [
        Placement(
            cases.pod(f"p{i}", draw.choice(menus.SIZES), draw.choice(menus.POD_LABELS), draw.choice(menu)),
            draw.choice(nodes).name,
        )
        for i in range(40)
    ]
    assert broken_rules(nodes, placements) == by_checker(nodes, placements)


def test_a_node_that_is_too_small_is_noticed() -> None:
    nodes, placements = planned(50, 2)
    name = placements[0].node_name
    small = [msgspec.structs.replace(node, status=NodeStatus()) if node.name == name else node for node in nodes]
    found = broken_rules(small, placements)
    there = sum(placement.node_name == name for placement in placements)
    assert found["resources"] == there
    assert found["pods"] == there


def test_what_is_not_judged_is_not_passed_over() -> None:
    pod = cases.pod("p", menus.SIZES[0], menus.HOST_PORTS[0])
    with pytest.raises(ValueError, match="host ports"):
        broken_rules([cases.node("n")], [Placement(pod, "n")])
