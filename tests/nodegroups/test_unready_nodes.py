"""Nodes that are not ready: replaced before they go, first to go, and never the reason for a rush."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.kube.resources import NODES
from plimsoll.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.nodegroups.settings import NodeGroupSettings
from tests.nodegroups.world import World, said

QUICK = {"underutilizationDuration": "20s", "cooldownSeconds": 10}


def patient_for_a_minute() -> World:
    return World(NodeGroupSettings(unschedulable_pod_grace=timedelta(0), unready_timeout=timedelta(minutes=1)))


def test_one_at_the_minimum_is_replaced_first() -> None:
    world = patient_for_a_minute()
    world.group(minNodes=2, maxNodes=3, scaleDownPolicy=QUICK)
    world.run(30)
    broken = world.members()[0].node_name
    world.unready(broken)
    world.run(50)
    assert len(world.cloud.machines) == 2, "it may come back"
    fewest = 2
    for _ in range(200):
        world.run(1)
        staying = [member.node_name for member in world.members() if not member.leaving]
        fewest = min(fewest, len(staying))
    assert fewest == 2, "S7"
    names = {node.name for node in world.api.typed(NODES)}
    assert len(names) == 2, "\n".join(said(world))
    assert broken not in names
    assert all(node.ready for node in world.api.typed(NODES))


def test_without_room_for_another_it_stays() -> None:
    """S7 counts nodes: below the minimum none goes, ready or not."""
    world = patient_for_a_minute()
    world.group(minNodes=2, maxNodes=2, scaleDownPolicy=QUICK)
    world.run(30)
    world.unready(world.members()[0].node_name)
    world.run(300, step=3)
    assert len(world.cloud.machines) == 2
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert isinstance(decision, GroupsDecision)
    assert {stays.blocker.code for stays in decision.staying} == {"NodeGroupMinSizeReached"}
    world.change_group(maxNodes=3)
    world.run(200)
    assert all(node.ready for node in world.api.typed(NODES))
    assert len(world.cloud.machines) == 2


def test_nobody_is_replaced_while_most_are_not_ready() -> None:
    world = patient_for_a_minute()
    world.group(minNodes=4, maxNodes=9, scaleDownPolicy=QUICK)
    world.run(30)
    for node in world.api.typed(NODES):
        world.unready(node.name)
    world.run(300, step=3)
    assert len(world.cloud.machines) == 4, "it is rather we who are cut off"


def test_they_go_before_older_and_emptier_ones() -> None:
    world = patient_for_a_minute()
    world.group(desiredNodes=3, maxNodes=4, scaleDownPolicy=QUICK)
    world.run(30)
    names = [member.node_name for member in world.members()]
    world.unready(names[-1])
    world.change_group(desiredNodes=0, minNodes=2)
    world.run(200)
    assert names[-1] not in {node.name for node in world.api.typed(NODES)}
