"""A spread counts only nodes with all of its topology keys; a pod that would violate it may go to other nodes."""

from __future__ import annotations

from plimsoll.scheduling.model import NodeOffering, Template
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, plan_of, pod
from tests.scheduling.checker import violations
from tests.scheduling.menus import ZONE, evenly

DISK = "disk"
A = {"metadata": {"labels": {"app": "a"}}}
B = {"metadata": {"labels": {"app": "b"}}}
OF_B = {"labelSelector": {"matchLabels": {"app": "b"}}}
# By zone two of b at most, as long as there is a zone without any; nodes without a disk do not count.
KEEPS_ROOM = evenly({"topologyKey": DISK}, {"topologyKey": ZONE, "maxSkew": 2, **OF_B})
NOBODY_TOLERATES = ({"key": "dedicated", "value": "batch", "effect": "NoSchedule"},)
ELSEWHERE = node("elsewhere", zone="z2", labels={DISK: "ssd"}, taints=NOBODY_TOLERATES)


def broken_in(case: Case) -> list[str]:
    plan = plan_of(case)
    assert not plan.unplaced
    return [str(violation) for violation in violations(plan.before, plan.placements)]


def test_a_node_at_hand_where_they_do_not_count() -> None:
    """With three of b on the node that has a disk, the spread of the one that was placed first would be broken."""
    case = Case(
        nodes=(ELSEWHERE, node("counted", zone="z1", labels={DISK: "ssd"}), node("overlooked", zone="z1")),
        pending=(pod("a", A, KEEPS_ROOM), *(pod(f"b{n}", B, menus.SIZES[0]) for n in range(3))),
    )
    assert broken_in(case) == []


def test_a_new_node_where_they_do_not_count() -> None:
    def template(name: str, labels: dict[str, str]) -> Template:
        size = node(name).status.allocatable
        return Template(name, (NodeOffering(f"{name}-z1", {ZONE: "z1"}, size, 0.1),), labels=labels)

    case = Case(
        nodes=(ELSEWHERE,),
        pending=(pod("a", A, KEEPS_ROOM), *(pod(f"b{n}", B, menus.SIZES[0]) for n in range(3))),
        templates=(template("counted", {DISK: "ssd"}), template("overlooked", {})),
    )
    assert broken_in(case) == []
