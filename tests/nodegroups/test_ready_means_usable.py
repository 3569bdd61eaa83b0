"""Nodes of real clouds: other names, start-up taints, late device plug-ins, allocatable below capacity (S15)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.types.resources import NODES
from tests.nodegroups.cloud import LARGE, Cloud, offering
from tests.nodegroups.world import World

CILIUM = "node.cilium.io/agent-not-ready"
GPU = "example.com/gpu"
MINUTE = 60


def bought(world: World) -> int:
    return sum(len(machines) for machines in world.cloud.by_key.values())


def world_with(cloud: Cloud, **settings: Any) -> World:
    return World(NodeGroupSettings(unschedulable_pod_grace=timedelta(0), **settings), cloud)


def test_a_node_is_matched_by_provider_id_if_its_name_is_another() -> None:
    cloud = Cloud()
    cloud.chooses_names = True
    world = world_with(cloud)
    world.group(maxNodes=3)
    world.workload("web", 1)
    world.run(30 * MINUTE)
    (member,) = world.members()
    assert (member.phase, member.status.node_name) == ("Ready", "ip-10-0-0-m1")
    assert bought(world) == 1
    world.scale("web", 0)
    world.run(40 * MINUTE)
    assert (world.members(), world.cloud.machines) == ([], {})
    assert not world.api.objects[NODES], "its Node goes with it"


def test_a_node_of_the_expected_name_on_another_machine_is_not_ours() -> None:
    world = world_with(Cloud(makes=timedelta(minutes=2)))
    world.group(maxNodes=1)
    world.workload("web", 1)
    world.run(10)
    (member,) = world.members()
    other = replace(world.cloud.machines["m1"], id="other", key="other", name="other", group="")
    world.cloud.machines["other"], world.cloud.ready_at["other"] = other, world.now + timedelta(days=1)
    body = {"metadata": {"name": member.name}, "spec": {"providerID": "cloud://other"}, "status": {}}
    world.api.put(NODES, body)
    world.unready(member.name, ready=True)
    world.run(60)
    (member,) = world.members()
    assert member.phase == "Provisioning", "the machine is still being created"


@pytest.mark.parametrize(
    "key", [CILIUM, "ebs.csi.aws.com/agent-not-ready", "startup-taint.cluster-autoscaler.kubernetes.io/x"]
)
def test_a_startup_taint_buys_no_second_node(key: str) -> None:
    cloud = Cloud()
    cloud.startup_taint = (key, timedelta(minutes=3))
    world = world_with(cloud)
    world.group()
    world.workload("web", 1)
    world.run(10 * MINUTE)
    assert bought(world) == 1
    assert [member.phase for member in world.members()] == ["Ready"]
    assert [pod.spec.node_name for pod in world.pods()] == [world.members()[0].node_name]


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ({"startupTaints": [{"key": "acme.io/booting", "effect": "NoSchedule"}]}, {}),
        ({}, {"startup_taints": ("acme.io/booting",)}),
    ],
    ids=["of the group", "of the configuration"],
)
def test_startup_taints_can_be_named(spec: dict[str, Any], settings: dict[str, Any]) -> None:
    cloud = Cloud()
    cloud.startup_taint = ("acme.io/booting", timedelta(minutes=3))
    world = world_with(cloud, **settings)
    world.group(**spec)
    world.workload("web", 1)
    world.run(10 * MINUTE)
    assert bought(world) == 1


def test_a_startup_taint_that_stays_is_reported_and_counts_as_a_taint() -> None:
    cloud = Cloud()
    cloud.startup_taint = (CILIUM, None)
    world = world_with(cloud, joining_timeout=timedelta(minutes=5))
    world.group(maxNodes=5)
    world.workload("web", 1)
    world.run(8 * MINUTE)
    assert [member.phase for member in world.members()] == ["Ready"]
    assert any(CILIUM in text and "NotUsable" in text for _, text in world.log)
    assert bought(world) == 1, "another one would have the taint, too"


def test_a_late_device_plug_in_buys_no_second_node() -> None:
    cloud = Cloud((offering("gpu", "8", "32Gi"),))
    cloud.offerings[0].capacity[GPU] = cloud.offerings[0].capacity["pods"]  # type: ignore[index]
    cloud.late = {GPU: timedelta(minutes=2)}
    world = world_with(cloud)
    world.group(offeringIDs=["gpu"], maxNodes=9)
    world.workload("train", 1, requests={GPU: "1"})
    world.run(10 * MINUTE)
    assert bought(world) == 1
    assert [bool(pod.spec.node_name) for pod in world.pods()] == [True]


def test_allocatable_is_remembered_when_the_last_node_is_gone() -> None:
    """A pod that fits the machine and not what the kubelet leaves of it: one machine is bought, not one per half hour."""
    cloud = Cloud()
    cloud.reserved = {"cpu": 200}
    world = world_with(cloud)
    world.group()
    world.workload("web", 1, cpu="1900m")
    world.run(60 * MINUTE)
    assert (bought(world), world.members()) == (1, [])
    world.restart()
    world.run(180 * MINUTE, step=5)
    assert bought(world) == 1
    group = world.the_group()
    assert [(one.id, str(one.allocatable["cpu"].milli)) for one in group.status.offerings] == [("small", "1800")]


def test_reserved_resources_are_subtracted_before_a_node_has_joined() -> None:
    cloud = Cloud()
    cloud.reserved = {"cpu": 200}
    world = world_with(cloud)
    world.group(reserved={"cpu": "200m"})
    world.workload("web", 1, cpu="1900m")
    world.run(30 * MINUTE)
    assert bought(world) == 0


def test_an_offering_that_never_joins_is_paused_by_itself() -> None:
    cloud = Cloud()
    cloud.never_join = {"small"}
    world = world_with(cloud, joining_timeout=timedelta(minutes=3), provisioning_timeout=timedelta(minutes=3))
    world.group(offeringIDs=["small", "large"])
    world.workload("web", 1)
    world.run(12 * MINUTE)
    assert {member.spec.instance_type for member in world.members() if member.phase == "Ready"} == {LARGE.id}
    assert [bool(pod.spec.node_name) for pod in world.pods()] == [True]


def test_machines_that_never_served_are_bought_more_and_more_slowly() -> None:
    """The scheduler never binds the pod (S15): nodes come and go, and each pause is longer than the one before."""
    world = world_with(Cloud())
    world.group(scaleDownPolicy={"underutilizationDuration": "1m"}, scaleDownCooldown="1s")
    world.scheduler_rests = True
    bought_at: list[float] = []
    for minute in range(4 * 60):
        world.workload("web", int(minute % 10 < 2))  # a pod that is gone before its node has come
        before = bought(world)
        world.run(MINUTE, step=5)
        bought_at += [minute] * (bought(world) - before)
    gaps = [later - earlier for earlier, later in pairwise(bought_at)]
    assert len(bought_at) <= 10, bought_at
    assert max(gaps) >= 30
    (backoff,) = world.the_group().status.backoffs
    assert (backoff.offering, backoff.reason) == ("small", "NeverServed")


def moody(mood: str) -> Cloud:
    cloud = Cloud((offering("gpu", "8", "32Gi"),))
    cloud.offerings[0].capacity[GPU] = cloud.offerings[0].capacity["pods"]  # type: ignore[index]
    match mood:
        case "the taint stays":
            cloud.startup_taint = (CILIUM, None)
        case "the taint goes late":
            cloud.startup_taint = (CILIUM, timedelta(minutes=14))
        case "the GPUs never come":
            cloud.late = {GPU: timedelta(days=9)}
        case "the GPUs come late":
            cloud.late = {GPU: timedelta(minutes=20)}
        case "the kubelet keeps more than is left":
            cloud.reserved = {"cpu": 2000}
        case "machines never join":
            cloud.never_join = {"gpu"}
    return cloud


@pytest.mark.parametrize(
    "mood",
    [
        "the taint stays", "the taint goes late", "the GPUs never come", "the GPUs come late",
        "the kubelet keeps more than is left", "machines never join", "every other hour nobody answers",
    ],
)  # fmt: skip
def test_a_day_in_any_mood_buys_nothing_in_circles(mood: str) -> None:
    """S15: a pod that no node helps costs at most one machine per pause of the longest kind."""
    cloud = moody(mood)
    world = world_with(cloud)
    world.group(
        offeringIDs=["gpu"], maxNodes=9, scaleDownPolicy={"underutilizationDuration": "1m"}, scaleDownCooldown="1s"
    )
    world.workload("train", 1, cpu="7", requests={GPU: "1"})
    for hour in range(24):
        cloud.unreachable = mood == "every other hour nobody answers" and hour % 2 == 1
        if hour == 12:
            world.restart()
        world.run(60 * MINUTE, step=30)
    # Agents may be repaired at any time, so a new node is tried once per 15 minutes to join and 30 to pause, shorter at first.
    tried_again = mood in ("machines never join", "the taint stays")
    assert bought(world) <= (24 * 60 / 45 + 6 if tried_again else 2)
    assert len(world.members()) <= 1
