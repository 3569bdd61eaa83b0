"""Pods that wait, nodes that are little used, failures that are counted: each part by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.backoff import backoffs_after_failures, failure_recorded
from plimsoll.controllers.nodegroups.controller import CLUSTER
from plimsoll.controllers.nodegroups.scale_down.utilization import LowUseClocks, RequestedUse, Utilization
from plimsoll.controllers.nodegroups.scale_up.pending_pods import pending_pods
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.spec import scale_down_cooldown, spec_problem, underutilization_duration
from plimsoll.controllers.nodegroups.types import VPSIE_NODES, NodeGroup, ScaleDownPolicy, VPSieNode
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.scheduling.snapshot import Snapshot
from tests import build
from tests.build import START
from tests.nodegroups.world import World


def waiting(**changed: Any) -> Any:
    pod = build.pod("p", node="", phase="Pending", spec=changed.pop("spec", None))
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition = {**unschedulable, "lastTransitionTime": START.isoformat(), **changed.pop("condition", {})}
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", **changed.pop("metadata", {})},
        "status": {"phase": "Pending", "conditions": [condition], **changed.pop("status", {})},
    }
    found = convert(body, type(pod))
    return (
        convert({**body, "spec": {"schedulingGates": [{"name": "g"}]}}, type(pod)) if changed.pop("gated", 0) else found
    )


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"gated": 1}, False),
        ({"status": {"nominatedNodeName": "gone"}}, True),
        ({"condition": {"reason": "SchedulingGated"}}, False),
        ({"condition": {"status": "True"}}, False),
        ({"metadata": {"deletionTimestamp": START.isoformat()}}, False),
        (
            {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]}},
            False,
        ),
        ({"status": {"phase": "Failed"}}, False),
    ],
)
def test_who_waits(changed: dict[str, Any], counts: bool) -> None:
    grace = timedelta(seconds=2)
    pod = waiting(**changed)
    view = View.of({PODS: [pod], NODES: []})
    assert bool(pending_pods(view, START + grace, grace).pods) == counts
    early = pending_pods(view, START, grace)
    assert early.pods == ()
    assert early.next_at == (START + grace if counts else None)


@pytest.mark.parametrize(
    ("victim", "counts"),
    [
        ({"metadata": {"deletionTimestamp": START.isoformat()}}, False),
        ({}, True),  # nominated before binding, or by another component
        ({"metadata": {"deletionTimestamp": START.isoformat()}, "spec": {"priority": 100}}, True),
        (None, True),  # the node does not exist any more
    ],
)
def test_a_nominated_pod_waits_for_victims_alone(victim: dict[str, Any] | None, counts: bool) -> None:
    pod = waiting(status={"nominatedNodeName": "n1"})
    pod = replace(pod, spec=replace(pod.spec, priority=10))
    body = victim or {}
    other = convert(
        {
            "metadata": {"name": "v", "uid": "v", **body.get("metadata", {})},
            "spec": {"nodeName": "n1", **body.get("spec", {})},
        },
        type(pod),
    )
    nodes = [convert({"metadata": {"name": "n1"}}, Node)] if victim is not None else []
    view = View.of({PODS: [pod, other], NODES: nodes})
    assert bool(pending_pods(view, START, timedelta()).pods) == counts


def test_low_without_a_break() -> None:
    low = LowUseClocks()
    minute = timedelta(minutes=1)
    assert low.observe(["a", "b"], START) == {"a": START, "b": START}
    assert low.observe(["a"], START + minute) == {"a": START}
    assert low.observe(["a", "b"], START + 2 * minute) == {"a": START, "b": START + 2 * minute}
    late = START + 10 * minute
    assert low.observe(["a", "b"], late) == {"a": late, "b": late}, "nobody looked for eight minutes"
    early = START - minute
    assert low.observe(["a"], early) == {"a": early}, "a clock that was set back starts anew"


def test_utilisation_counts_what_is_requested() -> None:
    requests = {"cpu": "2", "memory": "8Gi"}
    pods = [
        build.pod(spec={"containers": [{"name": "m", "resources": {"requests": requests}}]}),
        build.pod(phase="Succeeded", spec={"containers": [{"name": "m", "resources": {"requests": requests}}]}),
    ]
    nodes = [build.node("n1"), build.node("n2")]
    used = RequestedUse(Snapshot.build(nodes, pods))
    assert [used.of(node) for node in nodes] == [Utilization(25, 25), Utilization(0, 0)]
    assert used.of(build.node("n3")) is None, "nothing is known of it"
    few = ScaleDownPolicy(cpu_threshold=25, memory_threshold=26)
    assert used.low(nodes, few) == [nodes[1].uid], "both must be below"
    assert used.low(nodes, ScaleDownPolicy(cpu_threshold=0)) == []


def group(**spec: Any) -> NodeGroup:
    return convert({"metadata": {"name": "g", "namespace": "d"}, "spec": spec}, NodeGroup)


def test_later_fields_win_over_older_ones() -> None:
    minutes = timedelta(minutes=1)
    assert scale_down_cooldown(group()) == 10 * minutes
    assert scale_down_cooldown(group(scaleDownCooldown="0s")) == 10 * minutes
    assert scale_down_cooldown(group(scaleDownPolicy={"cooldownSeconds": 60})) == minutes
    assert scale_down_cooldown(group(scaleDownCooldown="2m", scaleDownPolicy={"cooldownSeconds": 60})) == 2 * minutes
    assert underutilization_duration(group()) == 10 * minutes
    assert underutilization_duration(group(scaleDownPolicy={"stabilizationWindowSeconds": 60})) == minutes
    both = {"stabilizationWindowSeconds": 60, "underutilizationDuration": "3m"}
    assert underutilization_duration(group(scaleDownPolicy=both)) == 3 * minutes


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"minNodes": 4}, "minNodes is 4, above maxNodes 3"),
        ({"offeringIDs": []}, "offeringIDs is empty"),
        ({"datacenterID": "north 1"}, 'datacenterID has "north 1", which cannot be the value of a label'),
        ({"scaleUpCooldown": "soon"}, 'scaleUpCooldown: "soon" is not a duration'),
    ],
)
def test_what_an_older_definition_let_through(changed: dict[str, Any], said: str | None) -> None:
    found = spec_problem(group(**{"maxNodes": 3, "offeringIDs": ["small"], **changed}))
    assert found is None if said is None else said in str(found)


def test_one_group_that_is_wrong_holds_up_no_other() -> None:
    world = World()
    world.group("wrong", desiredNodes=1, datacenterID="north 1")
    world.group("right", desiredNodes=1)
    world.run(20)
    assert [member.spec.node_group_name for member in world.members()] == ["right"]
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert [problem.code for problem in decision.problems] == ["InvalidSpec"]


def failed_node(minutes: int, reason: str = "QuotaExceeded") -> VPSieNode:
    at = (START + timedelta(minutes=minutes)).isoformat()
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": "m", "lastTransitionTime": at}
    body = {
        "metadata": {"name": f"n{minutes}", "namespace": "d"},
        "spec": {"nodeGroupName": "g", "instanceType": "small"},
        "status": {"phase": "Failed", "conditions": [condition]},
    }
    return convert(body, VPSieNode)


def test_failures_are_entered_once_and_last_longer_each_time() -> None:
    one, settings = group(), NodeGroupSettings()
    waits = []
    for minutes in (0, 6, 20, 60, 100):
        node = failed_node(minutes)
        now = START + timedelta(minutes=minutes)
        assert not failure_recorded(node, one)
        backoffs = backoffs_after_failures(one, [node], settings, now)
        body = {"metadata": {"name": "g", "namespace": "d"}, "status": {}}
        one = convert(body, NodeGroup)
        one = type(one)(one.metadata, one.spec, type(one.status)(backoffs=backoffs))
        assert failure_recorded(node, one)
        assert backoffs_after_failures(one, [node], settings, now) == backoffs
        (backoff,) = backoffs
        assert backoff.until is not None
        waits.append((backoff.until - now) // timedelta(minutes=1))
    assert waits == [5, 10, 20, 30, 30]
    assert backoffs_after_failures(one, [], settings, START + timedelta(hours=6)) == (), "long over"


def test_nodes_that_fail_together_are_one_failure() -> None:
    nodes = [failed_node(0), failed_node(1), failed_node(2)]
    (backoff,) = backoffs_after_failures(group(), nodes, NodeGroupSettings(), START + timedelta(minutes=2))
    assert backoff.failures == 1
    assert backoff.until == START + timedelta(minutes=5)


def test_what_is_sold_out_holds_back_that_offering_alone() -> None:
    (backoff,) = backoffs_after_failures(group(), [failed_node(0, "OfferingUnavailable")], NodeGroupSettings(), START)
    assert backoff.offering == "small"


def test_a_machine_of_another_order_is_never_given_back() -> None:
    """The id in the VPSieNode names another's machine by now: a cloud that counts from the start again, a restored backup."""
    world = World()
    world.group(desiredNodes=1)
    world.run(30)
    (member,) = world.members()
    machine = world.cloud.machines[member.spec.vpsie_instance_id]
    world.cloud.machines[machine.id] = replace(machine, key="another", group="default.another")
    world.change_group(desiredNodes=0)
    body = world.api.objects[VPSIE_NODES]["default", member.name]
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    world.api.store(VPSIE_NODES, body)
    world.run(120)
    assert not world.members()
    assert list(world.cloud.machines) == [machine.id]


def test_the_groups_are_looked_at_when_a_node_has_been_little_used_for_long_enough() -> None:
    """Nobody else may have a reason to look: all pods and machines are as they were."""
    world = World()
    world.group(desiredNodes=1, scaleDownPolicy={"underutilizationDuration": "25s", "cooldownSeconds": 1})
    world.run(20)
    world.change_group(desiredNodes=0)
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert decision.requeue_after is not None
    assert timedelta(seconds=3) < decision.requeue_after < timedelta(seconds=25)
    world.now += decision.requeue_after
    world.inventories.record("cloud", world.cloud.listing(world.now))
    assert world.controller.decide(CLUSTER, world.api.view(), world.now).reason.code == "ScalingDown"


def test_and_when_one_that_is_not_ready_is_given_up() -> None:
    world = World(NodeGroupSettings(unready_timeout=timedelta(seconds=20)))
    world.group(desiredNodes=1, maxNodes=1)
    world.run(20)
    world.unready(world.members()[0].node_name)
    world.run(5)
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert decision.requeue_after is not None
    assert decision.requeue_after <= timedelta(seconds=15)
