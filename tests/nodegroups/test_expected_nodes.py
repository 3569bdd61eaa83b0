"""The node that is being created for a pending pod, from the order until the node is ready."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plimsoll.config import Config
from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.scale_up.expected_node import ExpectedNode, expected_node, provisioning_nodes
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.explain.pods import explain_pod
from plimsoll.explain.records import PodExplanation
from plimsoll.explain.targets import Explainer
from plimsoll.kube.types.resources import PODS
from tests.nodegroups.world import World


def burst(**group: Any) -> World:
    world = World()
    world.scheduler_rests = True
    world.group(**group)
    world.workload("web", 1)
    return world


def awaited(world: World) -> ExpectedNode | None:
    view, (pod,) = world.api.view(), world.pods()
    decision = world.controller.decide(CLUSTER, view, world.now)
    assert isinstance(decision, GroupsDecision)
    return expected_node(f"{pod.namespace}/{pod.name}", decision.scale_up, view)


def test_from_the_order_to_readiness() -> None:
    world = burst()
    phases: list[str] = []
    for _ in range(200):
        world.run(1)
        found = awaited(world)
        (member,) = world.members() or (None,)
        if member is None:
            continue
        if member.phase == "Ready":
            assert found is None, "it is there: whether the pod is bound is up to kube-scheduler"
            break
        assert found is not None
        assert (found.node, found.group, found.phase) == (member.node_name, member.group, member.phase)
        assert found.ordered_at is not None and found.ordered_at <= world.now
        assert provisioning_nodes(world.api.view()) == (found,)
        phases.append(found.phase)
    assert list(dict.fromkeys(phases)) == ["Pending", "Provisioning", "Provisioned"], phases
    assert provisioning_nodes(world.api.view()) == ()


def test_a_group_that_rests_has_not_ordered_it_yet() -> None:
    world = burst(scaleUpBatchSize=1, scaleUpCooldown="1h")
    world.scale("web", 2)
    world.workload("wide", 1, cpu="1500m")
    world.run(3)
    view = world.api.view()
    decision = world.controller.decide(CLUSTER, view, world.now)
    assert isinstance(decision, GroupsDecision)
    named = [f"{pod.namespace}/{pod.name}" for pod in world.pods()]
    found = [expected_node(name, decision.scale_up, view) for name in named]
    (member,) = world.members()
    assert {one.node for one in found if one is not None} == {member.node_name, ""}
    assert ExpectedNode("default/workers") in found


def test_a_pod_that_no_group_helps_awaits_nothing() -> None:
    world = burst()
    world.scale("web", 0)
    world.workload("huge", 1, cpu="500")
    world.run(3)
    assert awaited(world) is None


def test_explained() -> None:
    world = burst()
    world.run(3)
    view, (pod,) = world.api.view(), world.pods()
    (member,) = world.members()
    answer = explain_pod(PODS.key(pod), view, world.now, ClassRules(), world.controller)
    told = f"node {member.node_name} of group default/workers, ordered 2 s ago, phase {member.phase}"
    assert (answer.reason.code, answer.reason.message) == ("AwaitsNode", f"it waits for {told}")
    assert (answer.awaits, answer.coming) == (awaited(world), ())
    # Who cannot ask the provider does not know how large the node will be, and says only that it comes.
    elsewhere = Explainer(Config()).explain(PODS.key(pod), view, world.now)
    assert isinstance(elsewhere, PodExplanation)
    assert (elsewhere.reason.code, elsewhere.awaits, elsewhere.coming) == ("NoNodes", None, (answer.awaits,))


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (timedelta(seconds=-1), "ordered 0 s ago"),
        (timedelta(seconds=40), "ordered 40 s ago"),
        (timedelta(minutes=3, seconds=59), "ordered 3 min ago"),
        (timedelta(hours=5), "ordered 5 h ago"),
    ],
)
def test_in_words(ago: timedelta, told: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    sentence = ExpectedNode("infra/pool", "pool-1", "Joining", now - ago).sentence(now)
    assert sentence == f"node pool-1 of group infra/pool, {told}, phase Joining"
    assert (
        ExpectedNode("infra/pool", "pool-1", "Pending").sentence(now)
        == "node pool-1 of group infra/pool, phase Pending"
    )
    assert ExpectedNode("infra/pool").sentence(now) == "a new node of group infra/pool, which is not ordered yet"
