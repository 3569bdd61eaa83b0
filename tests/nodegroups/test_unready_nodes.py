"""Nodes that are not ready: replaced before they go, first to go, and never the reason for a rush."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.lifecycle.termination import Termination
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.decision import Transaction
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
    world.cloud.makes = timedelta(seconds=60)
    for _ in range(250):
        world.run(1)
        joined = [member for member in world.members() if not member.being_removed and member.phase == "Ready"]
        fewest = min(fewest, len(joined))
    assert fewest == 2, "S7: one that was only ordered does not take its place"
    names = {node.name for node in world.api.typed(NODES)}
    assert len(names) == 2, "\n".join(said(world))
    assert broken not in names
    assert all(node.ready for node in world.api.typed(NODES))


def full_group(pods: int = 0) -> tuple[World, str]:
    """A group that has as many nodes as it must and may have, one of which is not ready."""
    world = patient_for_a_minute()
    world.group(minNodes=2, maxNodes=2, scaleDownPolicy=QUICK)
    world.workload("web", pods)
    world.run(40)
    broken = world.members()[0].node_name
    world.unready(broken)
    return world, broken


def stays_because(world: World) -> set[str]:
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert isinstance(decision, GroupsDecision)
    return {stays.blocker.code for stays in decision.blocked_nodes}


def test_without_room_for_another_it_goes_first() -> None:
    """It serves nobody, and nothing but its going makes room for one that does. The maximum is judged at every step."""
    world, broken = full_group()
    world.run(50)
    assert broken in {member.node_name for member in world.members()}, "it may come back"
    world.run(200)
    nodes = world.api.typed(NODES)
    assert [node.ready for node in nodes] == [True, True], "\n".join(said(world))
    assert broken not in {node.name for node in nodes}
    assert len(world.cloud.machines) == 2


def test_without_room_for_another_it_stays_while_it_has_pods() -> None:
    """Nobody can say that they do not run: first they must be gone."""
    world, broken = full_group(pods=4)
    world.run(300, step=3)
    assert broken in {member.node_name for member in world.members() if not member.being_removed}
    assert stays_because(world) == {"NodeGroupMinSizeReached"}
    world.scale("web", 0)
    world.run(200)
    assert broken not in {node.name for node in world.api.typed(NODES)}
    assert len(world.cloud.machines) == 2


def test_each_of_several_has_a_story_of_its_own() -> None:
    """The oldest, which is asked first, has pods; another has none, and is replaced all the same."""
    world = patient_for_a_minute()
    world.group(minNodes=3, maxNodes=3, scaleDownPolicy=QUICK)
    world.run(40)
    world.change_group(minNodes=4, maxNodes=4)
    world.run(40)
    first, *_, second = (member.node_name for member in world.members())
    world.workload("web", 0)
    world.bind("web", first)
    world.unready(first)
    world.unready(second)
    world.run(200)
    names = {node.name for node in world.api.typed(NODES)}
    assert first in names
    assert second not in names
    assert len(world.cloud.machines) == 4


def test_one_that_comes_back_on_its_way_out_stays() -> None:
    """Also at the last moment, when only the node itself, read live, shows it."""
    world, broken = full_group()
    run_transaction, late = world._converse, 0

    def first_ready(conversation: Transaction) -> str:
        nonlocal late
        if isinstance(conversation.start, Termination) and not late:
            late += 1
            world.unready(broken, ready=True)
        return run_transaction(conversation)

    world._converse = first_ready  # type: ignore[method-assign]
    world.run(300)
    assert late == 1
    assert broken in {node.name for node in world.api.typed(NODES)}
    assert len(world.cloud.machines) == len(world.members()) == 2, "\n".join(said(world))


def test_a_drain_ends_where_most_nodes_are_lost_meanwhile() -> None:
    world = patient_for_a_minute()
    world.group(desiredNodes=6, maxNodes=6, scaleDownPolicy=QUICK)
    world.run(30)
    world.change_group(desiredNodes=0)
    while not any(member.phase == "Terminating" for member in world.members()):
        world.run(1)
    for node in world.api.typed(NODES):
        world.unready(node.name)
    world.run(200)
    assert len(world.cloud.machines) == 6, "it is rather we who are cut off"
    assert {member.phase for member in world.members()} == {"Ready"}


def test_what_is_foretold_counts_the_replacement() -> None:
    """The last node that the group may have is the replacement's: nobody else is promised it."""
    world = patient_for_a_minute()
    world.group(minNodes=2, maxNodes=3)
    world.run(30)
    world.cloud.quota = 2  # so that the replacement does not come, and both are asked about the same
    before = world.controller.growth_options(world.api.view(), world.now)
    assert [template.max_nodes for template in before.templates] == [1]
    world.unready(world.members()[0].node_name)
    world.now += timedelta(minutes=2)
    world.inventories.record("cloud", world.cloud.listing(world.now))
    after = world.controller.growth_options(world.api.view(), world.now)
    assert after.templates == ()
    assert len(after.coming) == 1


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


def test_a_node_that_has_joined_serves_though_the_provider_does_not_list_its_machine() -> None:
    """A list that is half an hour old says nothing about a machine of today: its node does."""
    world = World()
    world.group(minNodes=0, maxNodes=3, scaleDownPolicy={"enabled": False})
    world.run(10)
    world.cloud.stale = timedelta(minutes=30)
    world.workload("web", 1)
    world.run(1200)
    assert [member.phase for member in world.members()] == ["Ready"], "\n".join(said(world))
    assert len(world.cloud.by_key) == 1, "nothing was given up and made again"
    assert all(pod.spec.node_name for pod in world.pods())
