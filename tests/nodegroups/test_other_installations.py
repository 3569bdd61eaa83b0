"""A group that another installation looks after, too: one of the two goes on, and both say so."""

from __future__ import annotations

import copy
from datetime import timedelta

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.other_installations import RECENT
from plimsoll.controllers.nodegroups.types import ORDERED_BY, VPSIE_NODES, VPSieNode
from plimsoll.runtime.decision import Create
from tests.nodegroups.api_server import timestamp
from tests.nodegroups.world import World

HOME = "plimsoll-system"


def world_with_a_node() -> tuple[World, VPSieNode]:
    world = World()
    world.group(minNodes=1)
    world.run(60)
    (member,) = world.members()
    assert member.annotations[ORDERED_BY] == HOME
    return world, member


def order(world: World, member: VPSieNode, by: str, ago: timedelta = timedelta(minutes=1)) -> None:
    """The order was that installation's, at that time."""
    body = copy.deepcopy(world.api.objects[VPSIE_NODES][member.namespace, member.name])
    body["metadata"]["annotations"] = {ORDERED_BY: by}
    body["metadata"]["creationTimestamp"] = timestamp(world.now - ago)
    world.api.store(VPSIE_NODES, body)


def decided(world: World) -> GroupsDecision:
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert isinstance(decision, GroupsDecision)
    return decision


def adding(decision: GroupsDecision) -> int:
    return sum(isinstance(action, Create) for action in decision.actions)


def test_who_has_ordered_nothing_lately_leaves_it_to_who_has() -> None:
    world, member = world_with_a_node()
    order(world, member, by="elsewhere")
    world.change_group(minNodes=2)
    held = decided(world)
    assert adding(held) == 0
    (blocker,) = [one for one in held.blockers if one.code == "AnotherInstallation"]
    assert "managed by the installation in namespace elsewhere" in blocker.message
    assert blocker.until == world.now - timedelta(minutes=1) + RECENT
    (problem,) = held.problems
    assert problem.code == "AnotherInstallation"
    for words in ("in namespace elsewhere", f"the one in {HOME} leaves the group alone", "controllers.enabled"):
        assert words in problem.message
    assert problem.regarding.name == "workers"


def test_what_was_ordered_a_while_ago_is_nobodys() -> None:
    world, member = world_with_a_node()
    order(world, member, by="elsewhere", ago=RECENT)
    world.change_group(minNodes=2)
    assert (adding(decided(world)), decided(world).problems) == (1, ())


def test_of_two_that_have_the_first_by_name_goes_on_and_says_so() -> None:
    for other, goes_on in (("zoo", True), ("attic", False)):
        world, _ = world_with_a_node()
        world.change_group(minNodes=2)
        world.run(60)
        _, second = world.members()
        order(world, second, by=other)
        world.change_group(minNodes=3)
        decision = decided(world)
        assert adding(decision) == int(goes_on), other
        (problem,) = decision.problems
        assert ("continues" in problem.message) == goes_on


def test_a_node_of_such_a_group_stays() -> None:
    world, member = world_with_a_node()
    world.change_group(minNodes=0, scaleDownPolicy={"underutilizationDuration": "1s", "cooldownSeconds": 1})
    order(world, member, by="elsewhere", ago=timedelta(0))
    until = world.now + RECENT
    world.run(60)
    assert {stays.blocker.code for stays in decided(world).blocked_nodes} == {"AnotherInstallation"}
    kept = world.controller.removal_blockers(VPSIE_NODES.key(member), world.api.view(), world.now)
    assert "AnotherInstallation" in {one.code for one in kept}
    world.run((until - world.now).total_seconds() + 60)
    assert not world.members(), "nobody else has shown up since"
