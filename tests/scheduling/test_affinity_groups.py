"""Pods that want each other's company while some of them are held in different zones: as few as possible stay unplaced."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import Template
from tests.scheduling import k1, menus
from tests.scheduling.cases import Case, node, offering, plan_of, pod
from tests.scheduling.checker import illegal_steps, violations
from tests.scheduling.menus import ZONE, merge

TOGETHER = merge(
    menus.SIZES[0],
    {"metadata": {"labels": {"app": "a"}}},
    menus.together({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}),
)


def held_in(zone: str) -> dict[str, object]:
    return {"spec": {"nodeSelector": {ZONE: zone}}}


def crowd(count: int, seed: int, *, with_priorities: bool) -> tuple[Pod, ...]:
    """K1's pods, of which every third is held in a zone."""
    pods = []
    for number, manifest in enumerate(k1.manifests(count, seed)):
        more = held_in(f"zone-{number % 9 // 3 + 1}") if number % 3 == 0 else {}
        priority = {"spec": {"priority": number % 3}} if with_priorities else {}
        pods.append(pod(manifest["metadata"]["name"], manifest, more, priority))
    return tuple(pods)


def fewest_left_out(pods: tuple[Pod, ...]) -> int:
    """Each company meets in one zone; whoever is held in another cannot come. No zone does better than the one of most."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for one in pods:
        if "my-affinity" in one.labels and one.spec.node_selector:
            held[one.labels["my-affinity"]][one.spec.node_selector[ZONE]] += 1
    return sum(by_zone.total() - max(by_zone.values()) for by_zone in held.values())


@pytest.mark.parametrize("with_priorities", [False, True])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)])
def test_no_more_are_left_out_than_must_be(seed: int, with_priorities: bool) -> None:
    pods = crowd(300, seed, with_priorities=with_priorities)
    plan = plan_of(Case(pending=pods, templates=(k1.template(40),)))
    assert len(plan.unplaced) == fewest_left_out(pods)
    assert not illegal_steps(plan.before, plan.placements)
    assert not violations(plan.before, plan.placements), "nobody's spread is broken for it"


def test_they_meet_where_most_can_come_though_another_is_larger_and_goes_first() -> None:
    large = merge(TOGETHER, menus.SIZES[1], held_in("z1"))
    pods = (pod("large", large), *(pod(f"small-{n}", TOGETHER, held_in("z2")) for n in range(2)))
    nodes = tuple(node(f"in-{zone}", menus.CAPACITIES[3], zone=zone) for zone in ("z1", "z2"))
    plan = plan_of(Case(nodes=nodes, pending=pods))
    assert [one.name for one in plan.unplaced] == ["large"]


def test_the_more_important_decides() -> None:
    important = merge(TOGETHER, held_in("z1"), {"spec": {"priority": 5}})
    pods = (*(pod(f"many-{n}", TOGETHER, held_in("z2")) for n in range(3)), pod("important", important))
    sold = tuple(offering(zone, menus.CAPACITIES[3], 1.0, labels={ZONE: zone}) for zone in ("z1", "z2"))
    plan = plan_of(Case(pending=pods, templates=(Template("t", sold),)))
    assert [placement.pod.name for placement in plan.placements] == ["important"]


def test_the_only_zone_with_room_will_do_where_the_best_one_has_none() -> None:
    pods = (pod("here", TOGETHER, held_in("z1")), *(pod(f"there-{n}", TOGETHER, held_in("z2")) for n in range(2)))
    plan = plan_of(Case(nodes=(node("in-z1", menus.CAPACITIES[3], zone="z1"),), pending=pods))
    assert plan.packing.placements == {"uid-here": "in-z1"}
