"""A story that shows what the operator does, chapter by chapter: something happens, and then it must come to a certain end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from plimsoll.allocation.crd import crd as weka_container_crd
from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.sim.api import kinds
from plimsoll.sim.api.documents import Json, at
from plimsoll.sim.api.kinds import Kind
from plimsoll.simulation.changes import carry_out, read_event, read_set
from plimsoll.simulation.populating import create
from plimsoll.simulation.world import World

NAMESPACE = "shop"
NODES = (
    *(f"2 zone={zone} class=spot cpu=4" for zone in "abc"),
    *(f"2 zone={zone} class=on-demand cpu=4" for zone in "abc"),
)
CONFIG = Config(controllers=ControllersSection(enabled=("placement", "deletion-cost", "allocation")))
_CONTAINERS = Kind("weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", status=True, custom=True)
_DRIVES = "weka.io/weka-drives"
_STORAGE_NODE = "on-demand-a-7"


class Chapter(Struct, frozen=True):
    title: str
    happens: Callable[[World], Awaitable[None]]
    ends: Callable[[World], bool]
    ended: Callable[[World], str]  # what came of it, in words
    within_seconds: float = 900.0


def workload(world: World, name: str = "web") -> Json:
    found = world.cluster.api.storage.get(kinds.DEPLOYMENTS, NAMESPACE, name)
    return found if found is not None else {"metadata": {"name": name, "namespace": NAMESPACE, "uid": ""}, "spec": {}}


def zones(world: World, name: str = "web") -> dict[str, int]:
    """Pods by zone."""
    counted: dict[str, int] = dict.fromkeys("abc", 0)
    for pod in world.witness.pods_of(workload(world, name)):
        node = world.cluster.api.storage.node(at(pod, "spec", "nodeName", default=""))
        if node is not None:
            counted[node["metadata"]["labels"]["topology.kubernetes.io/zone"]] += 1
    return counted


def _whole(world: World, spot: int, on_demand: int) -> bool:
    found = workload(world)
    return world.witness.missing(found) == 0 and world.witness.split(found) == (spot, on_demand)


def _split(world: World) -> str:
    spot, on_demand = world.witness.split(workload(world))
    return f"{spot} on spot, {on_demand} on-demand"


def _zones(world: World) -> str:
    return ", ".join(f"{count} in zone {zone}" for zone, count in zones(world).items())


def _does(*texts: str) -> Callable[[World], Awaitable[None]]:
    async def happen(world: World) -> None:
        for text in texts:
            change = read_event(text) if text.startswith(("reclaim:", "nodes:")) else read_set(text)
            await carry_out(change, world.cluster)

    return happen


async def _deploy(world: World) -> None:
    annotations = {
        "spotalis.io/enabled": "true",
        "spotalis.io/spot-percentage": "60%",
        "spotalis.io/min-on-demand": "3",
        "pod-deletion-cost.lablabs.io/enabled": "true",
    }
    labels = {"app": "web"}
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}
    await create(
        world.cluster,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": NAMESPACE, "annotations": annotations},
            "spec": {
                "replicas": 15,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    )
    await create(
        world.cluster,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )


async def _ask_for_drives(world: World) -> None:
    storage = world.cluster.api.storage
    await world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": CONFIG.allocation.namespace}})
    await world.cluster.create(kinds.DEFINITIONS, weka_container_crd())
    node = storage.node(_STORAGE_NODE)
    if node is not None:
        serials = '["SN-1","SN-2","SN-3","SN-4"]'
        annotations = {**node["metadata"].get("annotations", {}), _DRIVES: serials}
        storage.put(kinds.NODES, {**node, "metadata": {**node["metadata"], "annotations": annotations}})
    await world.cluster.settled()
    for number in range(2):
        body: dict[str, Any] = {
            "apiVersion": "weka.weka.io/v1alpha1",
            "kind": "WekaContainer",
            "metadata": {"name": f"backend-{number}", "namespace": NAMESPACE},
            "spec": {"nodeAffinity": _STORAGE_NODE, "mode": "drive", "numDrives": 2, "numCores": 1},
        }
        await world.cluster.create(_CONTAINERS, body, NAMESPACE)


def drives(world: World) -> dict[str, Sequence[str]]:
    """Drives by container."""
    return {
        one["metadata"]["name"]: at(one, "status", "allocations", "drives", default=[]) or []
        for one in world.cluster.all(_CONTAINERS, NAMESPACE)
    }


def _drives_given(world: World) -> bool:
    held = [serial for serials in drives(world).values() for serial in serials]
    return len(held) == len(set(held)) == 4


STORY: tuple[Chapter, ...] = (
    Chapter(
        "Fifteen replicas at once, 60 % on spot, at least 3 on-demand",
        _deploy,
        lambda world: _whole(world, 9, 6),
        lambda world: f"placed at admission, exactly: {_split(world)}, no eviction",
    ),
    Chapter(
        "The share falls from 60 % to 20 %, under a budget of one",
        _does(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=20%@0s"),
        lambda world: _whole(world, 3, 12),
        lambda world: f"moved one by one: {_split(world)}",
        3600.0,
    ),
    Chapter(
        "And rises to 60 % again",
        _does(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=60%@0s"),
        lambda world: _whole(world, 9, 6),
        lambda world: f"moved back: {_split(world)}",
        3600.0,
    ),
    Chapter(
        "The cloud takes a spot node back, with two minutes' notice",
        _does("reclaim:node/spot-a-1@0s"),
        lambda world: world.cluster.api.storage.node("spot-a-1") is None and _whole(world, 9, 6),
        lambda world: f"replaced before it went: {_split(world)}",
    ),
    Chapter(
        "Scaled down to 5",
        _does(f"deployment/{NAMESPACE}/web:replicas=5@0s"),
        lambda world: _whole(world, 2, 3),
        lambda world: f"share, minimum and zones stay right without a single move: {_split(world)}; {_zones(world)}",
    ),
    Chapter(
        "Two storage containers ask for the drives of one node",
        _ask_for_drives,
        _drives_given,
        lambda world: "; ".join(f"{name} holds {', '.join(held)}" for name, held in sorted(drives(world).items())),
    ),
)
