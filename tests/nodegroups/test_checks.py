"""Each safety check: blocking, and no longer blocking once its reason is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES
from plimsoll.kube.types.resources import BUDGETS, NODES, PODS, REPLICASETS
from tests.nodegroups.world import World, said

QUICK = {"underutilizationDuration": "20s", "cooldownSeconds": 10}
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def world_with(pod: dict[str, Any] | None = None, *, replicas: int = 2, spare: int = 1, **spec: Any) -> World:
    """A pod or two on one node of a group whose nodes are all little used, and room for them elsewhere."""
    world = World()
    world.group("rest", minNodes=spare, scaleDownPolicy={"enabled": False}, offeringIDs=["large"])
    world.run(30)
    world.workload(
        "web", replicas, cpu="100m", nodeSelector={"autoscaler.vpsie.com/nodegroup": "workers"}, **(pod or {})
    )
    world.group(**{"minNodes": 0, "maxNodes": 3, "scaleDownPolicy": QUICK, **spec})
    world.run(40)
    return world


def free(world: World) -> None:
    """From now on the pods would run anywhere."""
    for place, body in world.api.objects[PODS].items():
        body["spec"].pop("nodeSelector", None)
        world.api.store(PODS, world.api.objects[PODS][place])
    for body in world.api.objects[REPLICASETS].values():
        body["pod"].pop("nodeSelector", None)


def remaining(world: World) -> set[str]:
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    assert isinstance(decision, GroupsDecision)
    return {stays.blocker.code for stays in decision.blocked_nodes}


def workers(world: World) -> int:
    return sum(machine.group == "default.workers" for machine in world.cloud.machines.values())


def check(world: World, code: str, mend: Callable[[World], None]) -> None:
    free(world)
    world.run(60)
    assert workers(world) == 1, "\n".join(said(world))
    assert code in remaining(world), (remaining(world), "\n".join(said(world)))
    mend(world)
    world.run(120)
    assert workers(world) == 0, "\n".join(said(world))


def patch_pods(world: World, change: Callable[[dict[str, Any]], None]) -> None:
    for body in world.api.objects[PODS].values():
        change(body)
        world.api.store(PODS, body)
    for body in world.api.objects[REPLICASETS].values():
        body["pod"].setdefault("annotations", {})


def annotate(**annotations: str) -> Callable[[World], None]:
    return lambda world: patch_pods(
        world, lambda body: body["metadata"].setdefault("annotations", {}).update(annotations)
    )


def test_nothing_in_the_way() -> None:
    world = world_with()
    free(world)
    world.run(120)
    assert workers(world) == 0, "\n".join(said(world))


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"hostPath": {"path": "/data"}}])
def test_local_storage(volume: dict[str, Any]) -> None:
    world = world_with({"volumes": [{"name": "cache", **volume}]})
    volumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    check(world, "LocalStorageRequested", annotate(**{volumes: "other, cache"}))


def test_budgets() -> None:
    def pdb(world: World, allowed: int) -> None:
        world.api.put(
            BUDGETS,
            {
                "metadata": {"name": "web", "uid": "pdb", "generation": 1},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"observedGeneration": 1, "disruptionsAllowed": allowed},
            },
        )

    world = world_with()
    pdb(world, 0)
    check(world, "NotEnoughPdb", lambda world: pdb(world, 1))


def test_two_budgets_mean_never() -> None:
    world = world_with()
    for name in ("one", "two"):
        world.api.put(
            BUDGETS,
            {
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": 1},
            },
        )

    def leave_one(world: World) -> None:
        del world.api.objects[BUDGETS]["default", "two"]

    check(world, "SeveralBudgets", leave_one)


def test_system_pods() -> None:
    world = world_with()

    free(world)
    for place, body in list(world.api.objects[PODS].items()):
        body["metadata"] |= {"namespace": "kube-system", "uid": f"{body['metadata']['uid']}-system"}
        world.api.objects[PODS]["kube-system", place[1]] = world.api.objects[PODS].pop(place)
        world.api.store(PODS, body)
    world.run(60)
    assert remaining(world) == {"UnmovableKubeSystemPod"}
    annotate(**SAFE)(world)
    world.run(120)
    assert workers(world) == 0, (remaining(world), "\n".join(said(world)))


def test_a_pod_without_a_controller() -> None:
    world = world_with()
    free(world)

    def orphan(body: dict[str, Any]) -> None:
        body["metadata"]["ownerReferences"] = []

    patch_pods(world, orphan)
    check(world, "NotReplicated", annotate(**SAFE))


def test_the_only_ready_pod_of_its_owner() -> None:
    world = world_with(replicas=1)
    check(world, "LastReady", lambda world: world.scale("web", 2))


@pytest.mark.parametrize(
    "annotation",
    [
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        {"karpenter.sh/do-not-disrupt": "true"},
        {"karpenter.sh/do-not-disrupt": "1h"},
    ],
)
def test_pods_that_must_not_be_moved(annotation: dict[str, str]) -> None:
    world = world_with({"annotations": dict(annotation)})
    off = dict.fromkeys(annotation, "no")
    check(world, "NotSafeToEvictAnnotation", annotate(**off))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"), ("autoscaler.vpsie.com/scale-down", "disabled")],
)
def test_nodes_that_stay(annotation: str, value: str) -> None:
    world = world_with()
    name = next(member.node_name for member in world.members() if member.spec.node_group_name == "workers")
    world.annotate_node(name, **{annotation: value})
    check(world, "ScaleDownDisabledAnnotation", lambda world: world.annotate_node(name, **{annotation: "x"}))


def test_no_place_for_the_pods() -> None:
    world = world_with()
    world.run(60)
    assert "NoPlaceToMovePods" in remaining(world)
    free(world)
    world.run(120)
    assert workers(world) == 0


def test_anti_affinity_leaves_no_place() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world = world_with({"affinity": apart}, replicas=2)
    free(world)
    world.run(60)
    assert workers(world) == 1, "one pod has the other node, the second has no other place"
    assert "NoPlaceToMovePods" in remaining(world)


def test_the_minimum() -> None:
    world = world_with(minNodes=1)
    check(world, "NodeGroupMinSizeReached", lambda world: world.change_group(minNodes=0))


def test_what_someone_asked_for() -> None:
    world = world_with(desiredNodes=1)
    check(world, "NodeGroupMinSizeReached", lambda world: world.change_group(desiredNodes=0))


def test_the_cooldown_runs_after_a_scale_up_too() -> None:
    world = world_with(scaleDownCooldown="1h")
    check(world, "CooldownActive", lambda world: world.change_group(scaleDownCooldown="10s"))


def test_a_storage_container() -> None:
    world = world_with()
    free(world)
    owner = {"kind": "WekaContainer", "name": "drive-1", "uid": "weka", "controller": True}
    patch_pods(world, lambda body: body["metadata"].update(ownerReferences=[owner]))
    world.run(60)
    assert remaining(world) & {"AllocationOnNode", "LastReady"}
    assert workers(world) == 1


def zoned(zones: str, **spec: Any) -> tuple[World, list[str]]:
    """A group of empty nodes, in these zones by their age; all of them might go but for the zones."""
    world = World()
    world.group(**{"maxNodes": 9, "desiredNodes": len(zones), "scaleDownPolicy": QUICK, **spec})
    world.run(30)
    names = sorted((node.name for node in world.api.typed(NODES)), key=lambda name: int(name.rsplit("-")[-1]))
    for name, zone in zip(names, zones, strict=True):
        body = world.api.objects[NODES]["", name]
        body["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
        world.api.store(NODES, body)
    return world, names


def zones_left(world: World) -> list[str]:
    return sorted(node.labels["topology.kubernetes.io/zone"] for node in world.api.typed(NODES))


def test_the_emptier_zone_waits_for_the_fuller_one() -> None:
    """The oldest node would go first, were it not alone in its zone."""
    world, names = zoned("abb")
    disabled = "autoscaler.vpsie.com/scale-down"
    for name in names[1:]:
        world.annotate_node(name, **{disabled: "disabled"})
    world.change_group(desiredNodes=0)
    world.run(90)
    assert zones_left(world) == ["a", "b", "b"]
    assert "ZoneBalance" in remaining(world)
    world.annotate_node(names[1], **{disabled: "enabled"})
    world.run(90)
    assert zones_left(world) == ["b"], "one of the fuller zone, then that of the other: none has two more than another"


@pytest.mark.parametrize(("zones", "kept"), [("aabb", 2), ("aaabbb", 2), ("aaabbc", 3), ("aabbcc", 4)])
def test_zones_stay_balanced_when_several_nodes_go_at_once(zones: str, kept: int) -> None:
    world, _ = zoned(zones)
    world.change_group(minNodes=kept, desiredNodes=None)
    world.run(120)
    left = zones_left(world)
    assert len(left) == kept
    counts = [left.count(zone) for zone in sorted(set(zones))]
    assert max(counts) - min(counts) <= 1, left


def test_a_blocked_node_is_told_and_never_tainted() -> None:
    world = world_with({"volumes": [{"name": "cache", "emptyDir": {}}]})
    free(world)
    world.run(60)
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    note = next(note for note in decision.events if note.reason == "ScaleDownBlocked")
    assert "keeps data on the node (volume cache)" in note.message
    assert [count.name for count in note.counts] == ["vpsie_autoscaler_scale_down_blocked_total"]
    assert not any(node.spec.taints for node in world.api.typed(NODES))
    assert all(one["status"]["phase"] == "Ready" for one in world.api.objects[VPSIE_NODES].values())


def test_a_drain_that_takes_too_long_is_taken_back() -> None:
    world = world_with()
    free(world)
    world.evictions_refused = {pod.name for pod in world.pods()}
    world.run(9 * 60, step=3)
    assert any(node.spec.taints for node in world.api.typed(NODES))
    world.run(3 * 60, step=3)
    assert not any(node.spec.taints for node in world.api.typed(NODES)), "\n".join(said(world))
    member = next(one for one in world.members() if one.spec.node_group_name == "workers")
    assert member.phase == "Ready"
    reasons = {one.type: one.reason for one in member.status.conditions}
    assert reasons["Draining"] == "DrainTimeout"


def test_volumes_are_detached_before_the_machine_goes() -> None:
    """S6 is judged at every step."""
    world = world_with()
    free(world)
    name = next(member.node_name for member in world.members() if member.spec.node_group_name == "workers")

    def attach(volumes: list[dict[str, str]]) -> None:
        body = world.api.objects[NODES]["", name]
        body["status"]["volumesAttached"] = volumes
        world.api.store(NODES, body)

    attach([{"name": "kubernetes.io/csi/x", "devicePath": ""}])
    world.run(180)
    assert workers(world) == 1, "emptied, and waiting"
    assert not [pod for pod in world.pods() if pod.spec.node_name == name]
    attach([])
    world.run(60)
    assert workers(world) == 0


def test_one_low_sample_is_not_ten_minutes() -> None:
    world = World()
    world.group(scaleDownPolicy={"underutilizationDuration": "60s", "cooldownSeconds": 1}, desiredNodes=1)
    world.run(20)
    world.change_group(desiredNodes=0)
    world.workload("busy", 0, cpu="1500m")
    for _ in range(6):
        world.scale("busy", 0)
        world.run(40)
        world.scale("busy", 1)
        world.run(3)
    assert len(world.cloud.machines) == 1, "never low for a whole minute"
    world.scale("busy", 0)
    world.run(100)
    assert len(world.cloud.machines) == 0
    assert NODE_GROUPS in world.api.objects
