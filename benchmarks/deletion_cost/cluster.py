"""A Deployment of many ready pods in three zones, and an eye on what is written to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from benchmarks.report import progress
from plimsoll.act import CONCURRENT_WRITES
from plimsoll.clock import RealClock
from plimsoll.deletion_cost.spec import ENABLED
from plimsoll.deletion_cost.values import COST
from plimsoll.kube.client import Client
from plimsoll.kube.credentials import load_credentials
from plimsoll.kube.envelopes import WatchEvent
from plimsoll.kube.resources import DEPLOYMENTS, PODS
from plimsoll.kube.types import Pod

NAMESPACE = "default"
NAME = "web"
ZONES = ("a", "b", "c")
_PODS_A_NODE = 250
_PATIENCE_SECONDS = 120.0
_PATIENCE_A_POD_SECONDS = 0.2  # until it is scheduled and ready, or written to, on a machine that does much else


def node_lines(pods: int) -> list[str]:
    """KWOK nodes with a little more room than the pods need."""
    each = pods // len(ZONES) // _PODS_A_NODE + 1
    return [f"{each} zone={zone} cpu=1000 memory=4000Gi pods={_PODS_A_NODE + 50}" for zone in ZONES]


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    credentials = load_credentials(kubeconfig)
    async with Client(credentials, clock=RealClock(), qps=10_000, burst=10_000, timeout_seconds=120) as client:
        yield client


async def deploy(client: Client, pods: int) -> None:
    """Create the Deployment, not enabled yet, and wait until every pod is ready."""
    labels = {"app": NAME}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "example.org/none"}],
            "topologySpreadConstraints": [spread],
        },
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": template,
            "progressDeadlineSeconds": 3600,
        },
    }
    await client.create(DEPLOYMENTS, NAMESPACE, body)
    told = -1
    patience = _PATIENCE_SECONDS + pods * _PATIENCE_A_POD_SECONDS
    deadline = time.monotonic() + patience
    while (ready := (await client.get(DEPLOYMENTS, NAMESPACE, NAME)).status.ready_replicas) < pods:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ready} of {pods} pods are ready after {patience:.0f} s")
        if ready // 1000 != told:
            told = ready // 1000
            progress(f"{ready} of {pods} pods are ready")
        await asyncio.sleep(1)


async def switch(client: Client, *, on: bool) -> None:
    await client.patch(DEPLOYMENTS, NAMESPACE, NAME, {"metadata": {"annotations": {ENABLED: "true" if on else None}}})


async def write_bare(client: Client, stamp: str) -> float:
    """Seconds for one write a pod, as alike to ours as can be, by a client that does nothing else: the server's own pace."""
    pods = (await client.list(PODS, NAMESPACE)).items
    free = asyncio.Semaphore(CONCURRENT_WRITES)
    body = {
        "metadata": {"annotations": {"plimsoll.dev/benchmark-cost": stamp, "plimsoll.dev/benchmark-mark": "x" * 80}}
    }

    async def write(pod: Pod) -> None:
        async with free:
            version = pod.metadata.resource_version
            await client.patch(PODS, NAMESPACE, pod.name, body, uid=pod.uid, resource_version=version)

    started = time.monotonic()
    await asyncio.gather(*map(write, pods))
    return time.monotonic() - started


class Watcher:
    """Which pods carry a value, as a watch tells it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.values: dict[str, str | None] = {}
        self._decoder = msgspec.json.Decoder(WatchEvent)
        self._pod = msgspec.json.Decoder(_Annotated)
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch without end; the server drops a watch that cannot keep up, and then all is listed anew."""
        while True:
            listing = await self._client.list(PODS, NAMESPACE)
            self.values = {pod.uid: pod.annotations.get(COST) for pod in listing.items}
            self._changed.set()
            params = {"watch": "true", "resourceVersion": listing.resource_version, "allowWatchBookmarks": "true"}
            async with self._client.watch(PODS.path(NAMESPACE), params, idle_seconds=600) as chunks:
                rest = b""
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._see(self._decoder.decode(line))
                    self._changed.set()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        patience = _PATIENCE_SECONDS + len(self.values) * _PATIENCE_A_POD_SECONDS
        try:
            async with asyncio.timeout(patience):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            counts = f"{self.covered} of {len(self.values)} pods have a value"
            raise TimeoutError(f"not within {patience:.0f} s: {what}; {counts}") from None

    def _see(self, event: WatchEvent) -> None:
        if event.type == "MODIFIED":
            metadata = self._pod.decode(event.object).metadata
            self.values[metadata.uid] = metadata.annotations.get(COST)

    @property
    def covered(self) -> int:
        return sum(1 for value in self.values.values() if value is not None)


class _Metadata(msgspec.Struct):
    uid: str
    annotations: Mapping[str, str] = {}


class _Annotated(msgspec.Struct):
    metadata: _Metadata
