"""A process that does what an operator must not do, in a world without one that could mend it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.clocks import VirtualClock, run_virtually
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS, VPSIE_NODES
from plimsoll.simulate.fault_transport import FaultTransport
from plimsoll.simulate.population import create_object, populate_cluster
from plimsoll.simulate.world import World

NODES = ("2 zone=a class=spot", "2 zone=b class=on-demand")
ALL = Config(controllers=ControllersSection(enabled=("placement", "deletion-cost", "nodegroups", "allocation")))
ANNOTATIONS = {"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "50%", "spotalis.io/min-on-demand": "2"}
_SEEN = (
    "/api/v1/pods", "/api/v1/nodes", "/apis/policy/v1/poddisruptionbudgets", "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets",
)  # fmt: skip
MERGE = "application/merge-patch+json"
KEY = "key-of-the-machine"


class RogueOperator:
    def __init__(self, world: World, who: str = "plimsoll/rogue") -> None:
        self.world = world
        self.transport = FaultTransport(world.cluster.serve, who, Random(0), world.invariants.reply_received)
        self.account = world.cloud.account("kwok", who, world.invariants)

    async def looks(self) -> None:
        for path in _SEEN:
            await self.transport.serve("GET", path, {}, b"", "")

    async def asks(self, method: str, path: str, body: Any = None, **params: str) -> int:
        form = MERGE if method == "PATCH" else "application/json"
        data = msgspec.json.encode(body) if body is not None else b""
        return (await self.transport.serve(method, path, params, data, form)).status

    async def evicts(self, pod: Json, *, uid: bool = True) -> int:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}} if uid else {},
        }
        return await self.asks("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────

    def pods(self) -> list[Json]:
        """Those on-demand first."""
        found = self.world.cluster.all(kinds.PODS)
        return sorted(found, key=lambda pod: not pod["spec"]["nodeName"].startswith("on-demand"))

    async def machine(self, key: str = KEY, *, wait: float = 90.0) -> str:
        """One that was properly asked for; the name of its node, which is there once the wait is over."""
        name = f"node-of-{key}"
        if not any(one["metadata"]["uid"] == key for one in self.world.cluster.all(VPSIE_NODES)):
            self.world.cluster.load(VPSIE_NODES, [{"metadata": {"name": name, "namespace": "default", "uid": key}}])
        await self.account.create(request(key))
        await self.world.pass_time(wait)
        return name

    async def taints(self, node: str) -> None:
        taint = {"key": "plimsoll.dev/leaving", "effect": "NoSchedule"}
        await self.asks("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})

    async def lists_pods_on(self, node: str) -> None:
        await self.asks("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={node}")


def request(key: str = KEY, *, group: str = "default.workers") -> MachineRequest:
    return MachineRequest(key=key, name=f"node-of-{key}", group=group, offering="small", datacenter="dc")


Deed = Callable[[RogueOperator], Awaitable[object]]


def rules_broken(deed: Deed, config: Config = ALL, *, election: bool = False) -> set[str]:
    """Which rules the invariant checker says that a deed breaks."""

    async def go() -> set[str]:
        async with World(config, VirtualClock(), election=election) as world:
            await populate_cluster(world, None, NODES)
            await world.pass_time(60)
            await create_object(world.cluster, deployment(4))
            await create_object(world.cluster, group())
            await world.pass_time(60)
            rogue = RogueOperator(world)
            await rogue.looks()
            await deed(rogue)
            return {violation.rule for violation in world.invariants.violations}

    return run_virtually(go())


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": ANNOTATIONS},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
    }


def group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": NODE_GROUPS.api_version,
        "kind": "NodeGroup",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {
            "minNodes": 0, "maxNodes": 2, "datacenterID": "dc", "resourceIdentifier": "c", "project": "p",
            "offeringIDs": ["small"], "kubernetesVersion": "v1.36.3", **spec,
        },
    }  # fmt: skip


def container(name: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": CONTAINERS.api_version,
        "kind": "WekaContainer",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {"nodeAffinity": "on-demand-b-3", "mode": "drive", "numDrives": 2, "numCores": 1},
        "status": status,
    }
