"""Nodes and containers on a real API server, and an eye on what containers have."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.crd import crd
from plimsoll.controllers.allocation.inventory import DRIVES
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.resources import NAMESPACES, NODES
from plimsoll.runtime.clock import RealClock
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

NAMESPACE = "default"
LEASES_IN = "weka-operator-system"
_CONCURRENT = 32
_PATIENCE_SECONDS = 300.0


def install(cluster: ControlPlane) -> None:
    """The kind and the namespace of the leases; returns when the kind is served."""
    cluster.request("POST", NAMESPACES.path(), {"metadata": {"name": LEASES_IN}})
    cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            cluster.request("GET", WEKA_CONTAINERS.path())
        except ApiError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    credentials = load_credentials(kubeconfig)
    async with Client(credentials, clock=RealClock(), qps=10_000, burst=10_000, timeout_seconds=120) as client:
        yield client


async def make_node(client: Client, name: str) -> None:
    await client.create(NODES, "", {"metadata": {"name": name}})


async def announce_drives(client: Client, node: str, count: int) -> None:
    serials = json.dumps([f"{node}-drive-{number}" for number in range(count)])
    await client.patch(NODES, "", node, {"metadata": {"annotations": {DRIVES: serials}}})


async def make_containers(client: Client, node: str, count: int) -> list[str]:
    """Containers that want a drive and ports each."""
    names = [f"{node}-container-{number}" for number in range(count)]
    free = asyncio.Semaphore(_CONCURRENT)

    async def make(name: str) -> None:
        async with free:
            spec = {"nodeAffinity": node, "mode": "drive", "numDrives": 1}
            await client.create(WEKA_CONTAINERS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    await asyncio.gather(*map(make, names))
    return names


class Watcher:
    """What the containers have, as a watch tells it."""

    def __init__(self, client: Client) -> None:
        self.store: Store[WekaContainer] = Store(WEKA_CONTAINERS)
        self._reflector = Reflector(client, self.store, RealClock())
        self._changed = asyncio.Event()
        self.store.listen(lambda *_: self._changed.set())

    async def follow(self) -> None:
        await self._reflector.run()

    async def all_served(self, names: Sequence[str]) -> None:
        waiting = set(names)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while waiting:
                self._changed.clear()
                waiting -= {one.name for one in self.store if one.allocated}
                if waiting:
                    await self._changed.wait()

    def given_twice(self) -> list[str]:
        """Drives and first ports that two containers have: then the figures are worth nothing."""
        seen: set[str] = set()
        twice = []
        for one in self.store:
            things = [*(one.allocations.drives or ()), f"{one.node_name}:{one.allocations.weka_port}"]
            twice += [thing for thing in things if thing in seen]
            seen.update(things)
        return twice
