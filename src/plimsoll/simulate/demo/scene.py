"""The stage of the demonstration: a small shop on twelve nodes in three zones, and what can be done to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config.providers import Kwok, Providers
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, holds, name_of
from plimsoll.simulate.changes import carry_out, read_event, read_set
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS
from plimsoll.simulate.population import create
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

Happens = Callable[[World], Awaitable[None]]


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def workload(world: World, name: str = "web") -> Json:
    found = world.cluster.api.storage.get(kinds.DEPLOYMENTS, NAMESPACE, name)
    return found if found is not None else {"metadata": {"name": name, "namespace": NAMESPACE, "uid": ""}, "spec": {}}


def is_split(world: World, percent: int) -> bool:
    """All of `web` is there, that much of it on spot; whatever its size, for whoever watches may scale it."""
    found = workload(world)
    replicas = at(found, "spec", "replicas", default=0)
    spot = min(replicas * percent // 100, max(0, replicas - _MIN_ON_DEMAND))
    there = at(found, "metadata", "uid") != "" and world.witness.missing(found) == 0
    return there and world.witness.split(found) == (spot, replicas - spot)


def zones(world: World, name: str = "web") -> dict[str, int]:
    """Pods by zone."""
    counted: dict[str, int] = dict.fromkeys("abc", 0)
    for pod in world.witness.pods_of(workload(world, name)):
        node = world.cluster.api.storage.node(at(pod, "spec", "nodeName", default=""))
        if node is not None:
            counted[node["metadata"]["labels"][_ZONE]] += 1
    return counted


def bought_nodes(world: World) -> list[Json]:
    """Nodes that the group has now, ready ones."""
    return [
        node
        for node in world.cluster.all(kinds.NODES)
        if at(node, "metadata", "labels", _POOL) == GROUP and holds(node, "Ready")
    ]


def all_there(world: World, name: str, replicas: int) -> bool:
    found = workload(world, name)
    return at(found, "spec", "replicas") == replicas and world.witness.missing(found) == 0


def holdings(world: World) -> dict[str, tuple[Sequence[str], int]]:
    """Drives and port by container."""
    return {
        name_of(one): (
            at(one, "status", "allocations", "drives", default=[]),
            at(one, "status", "allocations", "wekaPort", default=0),
        )
        for one in world.cluster.all(CONTAINERS, NAMESPACE)
    }


def served(world: World) -> list[str]:
    """Containers that hold two drives and a port; no drive twice."""
    held = holdings(world)
    serials = [serial for drives, _ in held.values() for serial in drives]
    if len(serials) != len(set(serials)):
        return []
    return sorted(name for name, (drives, port) in held.items() if len(drives) == 2 and port)


# ── doing ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def does(*texts: str) -> Happens:
    """Changes as `plimsoll simulate` takes them."""

    async def happen(world: World) -> None:
        for text in texts:
            change = read_event(text) if text.startswith(("reclaim:", "nodes:")) else read_set(text)
            await carry_out(change, world.cluster)

    return happen


async def deploy_web(world: World) -> None:
    annotations = {
        "spotalis.io/enabled": "true",
        "spotalis.io/spot-percentage": "60%",
        "spotalis.io/min-on-demand": str(_MIN_ON_DEMAND),
        "pod-deletion-cost.lablabs.io/enabled": "true",
    }
    await create(world.cluster, _deployment("web", 15, cpu="500m", annotations=annotations))
    labels = {"app": "web"}
    await create(
        world.cluster,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )


async def send_burst(world: World) -> None:
    """Pods of a kind for which there is no node, and a group that may buy some."""
    taint = {"key": _POOL, "value": GROUP, "effect": "NoSchedule"}
    quick = {"underutilizationDuration": "1m", "cooldownSeconds": 30}
    spec: dict[str, Any] = {
        "minNodes": 0, "maxNodes": 4, "provider": "kwok", "datacenterID": "a", "resourceIdentifier": "demo",
        "project": "demo", "offeringIDs": ["medium"], "kubernetesVersion": "v1.36.3", "scaleDownPolicy": quick,
        "labels": {_POOL: GROUP, _ZONE: "a"}, "taints": [taint],
    }  # fmt: skip
    await world.cluster.create(NODE_GROUPS, {"metadata": {"name": GROUP}, "spec": spec}, NAMESPACE)
    placed = {"nodeSelector": {_POOL: GROUP}, "tolerations": [{**taint, "operator": "Equal"}]}
    await create(world.cluster, _deployment("batch", 6, cpu="1500m", pod=placed))


async def ask_for_drives(world: World) -> None:
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


async def remove_a_container(world: World) -> None:
    """One of those that hold drives."""
    name = served(world)[0]
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
