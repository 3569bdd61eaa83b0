"""A node is empty until the scheduler finds it: while pods that wait are counted on there, it stays."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from plimsoll.kube.types.resources import NODES
from tests.nodegroups.world import World, said

IMPATIENT = {"underutilizationDuration": "0s", "cooldownSeconds": 1}


def blockers(world: World) -> set[str]:
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert isinstance(decision, GroupsDecision)
    return {stays.blocker.code for stays in decision.blocked_nodes}


def test_a_new_node_that_the_scheduler_has_yet_to_find() -> None:
    world = World()
    world.scheduler_rests = True
    world.group(scaleDownPolicy=IMPATIENT)
    world.workload("web", 1)
    world.run(120)
    (member,) = world.members()
    assert member.phase == "Ready", "\n".join(said(world))
    assert blockers(world) == {"PodsExpected"}
    kept = world.controller.removal_blockers(VPSIE_NODES.key(member), world.api.view(), world.now)
    assert "PodsExpected" in {one.code for one in kept}, "and whoever asks is told"
    world.scheduler_rests = False
    world.run(5)
    assert all(pod.spec.node_name == member.node_name for pod in world.pods())
    world.scale("web", 0)
    world.run(60)
    assert not world.cloud.machines, "nobody is expected any more"


def test_a_node_on_which_others_make_room() -> None:
    world = World()
    world.group(desiredNodes=1, scaleDownPolicy=IMPATIENT)
    world.run(30)
    (node,) = world.api.typed(NODES)
    world.scheduler_rests = True
    world.workload("web", 1)
    world.run(1)
    world.nominate(world.pods()[0], node.name)
    world.change_group(desiredNodes=0)
    for _ in range(60):
        world.run(1)
        assert [member.phase for member in world.members()] == ["Ready"], "it is not even tried"
    assert blockers(world) == {"PodsExpected"}
