"""The demo's scene: a small shop on twelve nodes in three zones, queries on it, and the actions of the chapters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config.providers import Kwok, Providers
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, condition_true, name_of
from plimsoll.simulate.changes import apply_change, parse_event, parse_set
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS
from plimsoll.simulate.population import create_object
from plimsoll.simulate.world import World

NAMESPACE = "shop"
NODES = (
    *(f"2 zone={zone} class=spot cpu=4" for zone in "abc"),
    *(f"2 zone={zone} class=on-demand cpu=4" for zone in "abc"),
)
CONFIG = Config(
    controllers=ControllersSection(enabled=("placement", "deletion-cost", "nodegroups", "allocation")),
    providers=Providers(kwok=Kwok(create_delay=timedelta(seconds=20), delete_delay=timedelta(seconds=5))),
)
GROUP = "burst"
_MIN_ON_DEMAND = 3
_ZONE = "topology.kubernetes.io/zone"
_POOL = "example.org/pool"
_DRIVES = "weka.io/weka-drives"
_STORAGE_NODE = "on-demand-a-7"

ChapterAction = Callable[[World], Awaitable[None]]


# ── queries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def workload(world: World, name: str = "web") -> Json:
    found = world.cluster.api.storage.get(kinds.DEPLOYMENTS, NAMESPACE, name)
    return found if found is not None else {"metadata": {"name": name, "namespace": NAMESPACE, "uid": ""}, "spec": {}}


def is_split(world: World, percent: int) -> bool:
    """Whether all replicas of `web` are ready and `percent` of them run on spot, at any size: a spectator may have scaled it."""
    found = workload(world)
    replicas = at(found, "spec", "replicas", default=0)
    spot = min(replicas * percent // 100, max(0, replicas - _MIN_ON_DEMAND))
    there = at(found, "metadata", "uid") != "" and world.invariants.missing(found) == 0
    return there and world.invariants.split(found) == (spot, replicas - spot)


def zones(world: World, name: str = "web") -> dict[str, int]:
    """Number of pods by zone."""
    counted: dict[str, int] = dict.fromkeys("abc", 0)
    for pod in world.invariants.pods_of(workload(world, name)):
        node = world.cluster.api.storage.node(at(pod, "spec", "nodeName", default=""))
        if node is not None:
            counted[node["metadata"]["labels"][_ZONE]] += 1
    return counted


def group_nodes(world: World) -> list[Json]:
    """Ready nodes of the node group."""
    return [
        node
        for node in world.cluster.all(kinds.NODES)
        if at(node, "metadata", "labels", _POOL) == GROUP and condition_true(node, "Ready")
    ]


def all_ready(world: World, name: str, replicas: int) -> bool:
    found = workload(world, name)
    return at(found, "spec", "replicas") == replicas and world.invariants.missing(found) == 0


def allocations(world: World) -> dict[str, tuple[Sequence[str], int]]:
    """Allocated drives and port by container."""
    return {
        name_of(one): (
            at(one, "status", "allocations", "drives", default=[]),
            at(one, "status", "allocations", "wekaPort", default=0),
        )
        for one in world.cluster.all(CONTAINERS, NAMESPACE)
    }


def allocated_containers(world: World) -> list[str]:
    """Containers with two drives and a port; none if any drive is allocated twice."""
    held = allocations(world)
    serials = [serial for drives, _ in held.values() for serial in drives]
    if len(serials) != len(set(serials)):
        return []
    return sorted(name for name, (drives, port) in held.items() if len(drives) == 2 and port)


# ── actions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def apply_changes(*texts: str) -> ChapterAction:
    """An action that applies changes in the syntax of `plimsoll simulate`."""

    async def act(world: World) -> None:
        for text in texts:
            change = parse_event(text) if text.startswith(("reclaim:", "nodes:")) else parse_set(text)
            await apply_change(change, world.cluster)

    return act


async def deploy_web(world: World) -> None:
    annotations = {
        "spotalis.io/enabled": "true",
        "spotalis.io/spot-percentage": "60%",
        "spotalis.io/min-on-demand": str(_MIN_ON_DEMAND),
        "pod-deletion-cost.lablabs.io/enabled": "true",
    }
    await create_object(world.cluster, _deployment("web", 15, cpu="500m", annotations=annotations))
    labels = {"app": "web"}
    await create_object(
        world.cluster,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )


async def deploy_burst(world: World) -> None:
    """Create a node group without nodes, and pods that only its nodes can run."""
    taint = {"key": _POOL, "value": GROUP, "effect": "NoSchedule"}
    quick = {"underutilizationDuration": "1m", "cooldownSeconds": 30}
    spec: dict[str, Any] = {
        "minNodes": 0, "maxNodes": 4, "provider": "kwok", "datacenterID": "a", "resourceIdentifier": "demo",
        "project": "demo", "offeringIDs": ["medium"], "kubernetesVersion": "v1.36.3", "scaleDownPolicy": quick,
        "labels": {_POOL: GROUP, _ZONE: "a"}, "taints": [taint],
    }  # fmt: skip
    await world.cluster.create(NODE_GROUPS, {"metadata": {"name": GROUP}, "spec": spec}, NAMESPACE)
    placed = {"nodeSelector": {_POOL: GROUP}, "tolerations": [{**taint, "operator": "Equal"}]}
    await create_object(world.cluster, _deployment("batch", 6, cpu="1500m", pod=placed))


async def create_containers(world: World) -> None:
    storage = world.cluster.api.storage
    node = storage.node(_STORAGE_NODE)
    if node is not None:
        serials = '["SN-1","SN-2","SN-3","SN-4"]'
        annotations = {**node["metadata"].get("annotations", {}), _DRIVES: serials}
        storage.put(kinds.NODES, {**node, "metadata": {**node["metadata"], "annotations": annotations}})
    await world.cluster.settled()
    for number in range(3):
        body: dict[str, Any] = {
            "metadata": {"name": f"backend-{number}"},
            "spec": {"nodeAffinity": _STORAGE_NODE, "mode": "drive", "numDrives": 2, "numCores": 1},
        }
        await world.cluster.create(CONTAINERS, body, NAMESPACE)


async def delete_container(world: World) -> None:
    """Delete the first container that has drives."""
    name = allocated_containers(world)[0]
    world.cluster.api.objects.delete(CONTAINERS, NAMESPACE, name, {})


def _deployment(
    name: str, replicas: int, *, cpu: str, annotations: Mapping[str, str] | None = None, pod: Json | None = None
) -> Json:
    labels = {"app": name}
    container = {"name": "main", "image": name, "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **(pod or {})}},
        },
    }
