"""Plays the storage operator: what it writes to containers, pods and leases, in its order of steps, again and again.

Order: status Init → pod → the pod's node in status.nodeAffinity → wait until the pod runs → its own allocation step, under the
node's lease, if `status.allocations` is missing → conditions, container id and drives of a container that has an allocation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from tests.conformance.sides import Json, Side

GROUP = "weka.weka.io/v1alpha1"
NEVER_ALLOCATED = ("client", "discovery", "drivers-loader")
CLUSTER = "storage"


def cluster_crd() -> Json:
    """A WekaCluster as far as this test needs it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"kind": "WekaCluster", "listKind": "WekaClusterList", "plural": "wekaclusters", "singular": "wekacluster"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wekaclusters.weka.weka.io"},
        "spec": {"group": "weka.weka.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }  # fmt: skip


class StorageOperator:
    """`allocates`: its own step writes what it chose. Otherwise the write is refused, as by the policy of examples/one_allocator."""

    def __init__(self, side: Side, lease_namespace: str, *, allocates: bool = False) -> None:
        self.side = side
        self.allocates = allocates
        self.attempts = 0  # of its own allocation step
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{lease_namespace}/leases"
        self.containers = side.path("wekacontainers", group=GROUP)
        self.owner: Json = {}

    async def form_cluster(self, **ports: int) -> None:
        path = self.side.path("wekaclusters", group=GROUP)
        body = {"apiVersion": GROUP, "kind": "WekaCluster", "metadata": {"name": CLUSTER}}
        _, made = await self.side.ask("POST", path, body)
        uid = made["metadata"]["uid"]
        self.owner = {"apiVersion": GROUP, "kind": "WekaCluster", "name": CLUSTER, "uid": uid, "controller": True}
        await self.side.ask("PUT", f"{path}/{CLUSTER}/status", {**made, "status": {"status": "Init", "ports": ports}})

    async def add(self, name: str, mode: str, **spec: Any) -> Json:
        meta = {"name": name, "ownerReferences": [self.owner]}
        body = {
            "apiVersion": GROUP,
            "kind": "WekaContainer",
            "metadata": meta,
            "spec": {"mode": mode, "name": name, **spec},
        }
        code, made = await self.side.ask("POST", self.containers, body)
        assert code == 201, made
        return made

    async def get(self, name: str) -> Json:
        return (await self.side.ask("GET", f"{self.containers}/{name}"))[1]

    @asynccontextmanager
    async def at_work(self, *, seconds: float = 0.3) -> AsyncIterator[None]:
        """Reconcile all containers every so often, as long as the block lasts."""

        async def loop() -> None:
            while True:
                _, listing = await self.side.ask("GET", self.containers)
                for one in listing.get("items", ()):
                    await self.reconcile(one["metadata"]["name"])
                await asyncio.sleep(seconds)

        task = asyncio.create_task(loop())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def reconcile(self, name: str) -> None:
        one = await self.get(name)
        if "metadata" not in one or one["metadata"].get("deletionTimestamp"):
            return
        status = one.setdefault("status", {})
        if not status.get("status"):
            status["status"] = "Init"
            await self._update(one)
            return
        pod = await self._pod(one)
        if pod is None:
            return
        node = pod["spec"].get("nodeName")
        if node and not status.get("nodeAffinity"):
            status["nodeAffinity"] = node
            await self._update(one)
            return
        if pod.get("status", {}).get("phase") != "Running" or not node:
            return
        if status["status"] == "Init":
            status["status"] = "PodRunning"
            await self._update(one)
            return
        if one["spec"]["mode"] in NEVER_ALLOCATED:
            return
        if not status.get("allocations"):
            await self._allocate(one, node)
            return
        await self._use(one)

    async def fail_drive(self, name: str, node: str, serial: str) -> None:
        """A drive fails: it is blocked on the node, then removed from the list, which is sorted in place."""
        annotations = {"weka.io/blocked-drives": json.dumps([serial])}
        await self.side.ask(
            "PATCH",
            f"/api/v1/nodes/{node}",
            {"metadata": {"annotations": annotations}},
            form="application/merge-patch+json",
        )
        for _ in range(50):
            one = await self.get(name)
            kept = sorted(one for one in one["status"]["allocations"]["drives"] if one != serial)
            one["status"]["allocations"]["drives"] = kept
            one["status"]["addedDrives"] = [
                d for d in one["status"].get("addedDrives", []) if d["serial_number"] != serial
            ]
            if await self._update(one):
                return
        raise AssertionError("the list of drives could not be written")

    async def _update(self, one: Json) -> bool:
        """Replace the whole status, insisting on the version that was read. A conflict is left to the next pass."""
        code, _ = await self.side.ask("PUT", f"{self.containers}/{one['metadata']['name']}/status", one)
        return code == 200

    async def _pod(self, one: Json) -> Json | None:
        name = one["metadata"]["name"]
        code, found = await self.side.ask("GET", self.side.path("pods", name))
        if code == 200:
            return found
        owner = {
            "apiVersion": GROUP, "kind": "WekaContainer", "name": name, "uid": one["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        spec = {**self.side.pool(), "containers": [{"name": "weka", "image": "none"}]}
        await self.side.ask(
            "POST", self.side.path("pods"), {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
        )
        return None

    async def _use(self, one: Json) -> None:
        """Start the container with what it has."""
        status = one["status"]
        drives = status["allocations"].get("drives") or []
        added = [{"uuid": f"u-{serial}", "serial_number": serial, "status": "ACTIVE"} for serial in drives]
        wanted = {"ResourcesAllocated", "ResourcesWritten"}
        known = {c["type"] for c in status.get("conditions", ()) if c["type"] in wanted and c["status"] == "True"}
        if known == wanted and status.get("addedDrives", []) == added:
            return
        stamp = _now().replace(".000000", "")
        others = [c for c in status.get("conditions", ()) if c["type"] not in wanted]
        status["conditions"] = others + [
            {"type": kind, "status": "True", "reason": "Success", "message": "", "lastTransitionTime": stamp}
            for kind in sorted(wanted)
        ]
        await self._update({**one, "status": {**status, "status": "Running", "containerID": 1, "addedDrives": added}})

    async def _allocate(self, one: Json, node: str) -> None:
        lease = await self._acquire(node, f"{self.side.namespace}/{one['metadata']['name']}")
        if lease is None:
            return
        self.attempts += 1
        await asyncio.sleep(0.1)  # it reads its caches
        if self.allocates:
            _, listing = await self.side.ask("GET", self.containers)
            _, machine = await self.side.ask("GET", f"/api/v1/nodes/{node}")
            fresh = await self.get(one["metadata"]["name"])
            chosen = _choice(fresh, node, machine, listing["items"])
            if chosen is not None and not fresh["status"].get("allocations"):
                fresh["status"]["allocations"] = chosen
                await self._update(fresh)
        released = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
        await self.side.ask("PUT", f"{self._leases}/{lease['metadata']['name']}", {**lease, "spec": released})

    async def _acquire(self, node: str, identity: str) -> Json | None:
        """As client-go's leader election does it: take a lease that is free, and only that."""
        name, stamp = f"weka-allocator-{node}", _now()
        spec = {"holderIdentity": identity, "leaseDurationSeconds": 15, "acquireTime": stamp, "renewTime": stamp}
        code, found = await self.side.ask("GET", f"{self._leases}/{name}")
        if code == 404:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
            code, made = await self.side.ask("POST", self._leases, body)
            return made if code == 201 else None
        if found["spec"].get("holderIdentity"):
            return None
        code, made = await self.side.ask("PUT", f"{self._leases}/{name}", {**found, "spec": {**found["spec"], **spec}})
        return made if code == 200 else None


def _choice(one: Json, node: str, machine: Json, containers: list[Json]) -> Json | None:
    """The first free drives and ports, by what is committed; proposals mean nothing to it."""
    here = [c for c in containers if c.get("status", {}).get("nodeAffinity") == node]
    held = [c["status"].get("allocations") or {} for c in here if c["metadata"]["uid"] != one["metadata"]["uid"]]
    annotations = machine["metadata"]["annotations"]
    blocked = json.loads(annotations.get("weka.io/blocked-drives", "[]"))
    taken = {serial for allocation in held for serial in allocation.get("drives") or ()} | set(blocked)
    free = [serial for serial in json.loads(annotations["weka.io/weka-drives"]) if serial not in taken]
    wanted = one["spec"].get("numDrives", 0)
    if len(free) < wanted:
        return None
    ports = {allocation.get("wekaPort") for allocation in held}
    agents = {allocation.get("agentPort") for allocation in held}
    return {
        "drives": free[:wanted],
        "wekaPort": next(port for port in range(45000, 45300, 100) if port not in ports),
        "agentPort": next(port for port in range(45300, 45500) if port not in agents),
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
