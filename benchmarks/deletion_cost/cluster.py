"""A Deployment of many ready pods in three zones, and what is written to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import progress
from plimsoll.controllers.deletion_cost.spec import ENABLED
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource, metadata_of
from plimsoll.runtime.actuator import CONCURRENT_WRITES
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.clock import RealClock

NAMESPACE = "default"
NAME = "web"
ZONES = ("a", "b", "c")
_PODS_A_NODE = 250
_CONCURRENT = 16  # writes of whoever sets the scene
_LOOK_SECONDS = 0.05
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


def _template(labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": NAME}},
    }
    containers = [{"name": "main", "image": "example.org/none"}]
    return {
        "metadata": {"labels": {"app": NAME, **(labels or {})}},
        "spec": {"containers": containers, "topologySpreadConstraints": [spread]},
    }


def _deployment(pods: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": NAME}}
    spec = {"replicas": pods, "selector": selector, "template": _template(), "progressDeadlineSeconds": 3600}
    return {"metadata": {"name": NAME}, "spec": spec}


async def deploy(client: Client, pods: int) -> None:
    """Create the Deployment, not enabled yet, and wait until every pod is ready."""
    await client.create(DEPLOYMENTS, NAMESPACE, _deployment(pods))
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


async def populate(client: Client, pods: int, nodes: Mapping[str, list[str]]) -> None:
    """The same Deployment where no controller, scheduler or kubelet runs: its pods are written as those would leave them."""
    made = await client.create(DEPLOYMENTS, NAMESPACE, _deployment(pods))
    template = _template({"pod-template-hash": "1"})
    replica_set = await client.create(
        REPLICASETS,
        NAMESPACE,
        {
            "metadata": {
                "name": f"{NAME}-1",
                "labels": template["metadata"]["labels"],
                "ownerReferences": [_owned(DEPLOYMENTS, made)],
            },
            "spec": {
                "replicas": pods,
                "selector": {"matchLabels": template["metadata"]["labels"]},
                "template": template,
            },
        },
    )
    by_zone = [names for _, names in sorted(nodes.items())]
    metadata = {**template["metadata"], "ownerReferences": [_owned(REPLICASETS, replica_set)]}
    now = RealClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    free = asyncio.Semaphore(_CONCURRENT)

    async def make(number: int) -> None:
        zone = by_zone[number % len(by_zone)]
        node = zone[number // len(by_zone) % len(zone)]
        name = f"{NAME}-1-{number:05}"
        body = {"metadata": {**metadata, "name": name}, "spec": {**template["spec"], "nodeName": node}}
        async with free:
            await client.create(PODS, NAMESPACE, body)
            status = {"status": {"phase": "Running", "conditions": [ready]}}
            await client.patch(PODS, NAMESPACE, name, status, subresource="status")
        if number % 1000 == 999:
            progress(f"{number + 1} of {pods} pods are written")

    await asyncio.gather(*(make(number) for number in range(pods)))


def _owned(kind: Resource[Any], owner: KubeObject) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner.name, "uid": owner.uid, "controller": True}


async def switch(client: Client, *, on: bool) -> None:
    await client.patch(DEPLOYMENTS, NAMESPACE, NAME, {"metadata": {"annotations": {ENABLED: "true" if on else None}}})


async def write_bare(client: Client, stamp: str) -> float:
    """Seconds for one write a pod, as alike to ours as can be, by a client that does nothing else: the server's own pace."""
    pods = (await client.list(PODS, NAMESPACE)).items
    free, brief = asyncio.Semaphore(CONCURRENT_WRITES), metadata_of(PODS)
    body = {
        "metadata": {"annotations": {"plimsoll.dev/benchmark-cost": stamp, "plimsoll.dev/benchmark-mark": "x" * 80}}
    }

    async def write(pod: Pod) -> None:
        async with free:
            version = pod.metadata.resource_version
            await client.patch(
                brief, NAMESPACE, pod.name, body, form="strategic", uid=pod.uid, resource_version=version
            )

    started = time.monotonic()
    await asyncio.gather(*map(write, pods))
    return time.monotonic() - started


async def carrying(client: Client) -> int:
    """How many pods carry a value."""
    return sum(1 for pod in (await client.list(PODS, NAMESPACE)).items if COST in pod.annotations)


class Trail:
    """What the operator wrote, by its own audit trail: no eye of ours on a thousand pods takes CPU from whom it watches."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("rb")
        self._records = msgspec.json.Decoder(AuditRecord)

    def rest(self) -> list[AuditRecord]:
        """What was written since it was last asked for."""
        return [self._records.decode(line) for line in self._file.read().splitlines()]

    async def until_done(self, writes: int) -> list[AuditRecord]:
        """The same, once so many writes are done."""
        patience = _PATIENCE_SECONDS + writes * _PATIENCE_A_POD_SECONDS
        deadline = time.monotonic() + patience
        done, lines = 0, b""
        while done < writes:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {patience:.0f} s: {writes} writes; {done} are done")
            await asyncio.sleep(_LOOK_SECONDS)
            lines += (new := self._file.read())
            done += new.count(b'"result":"done"')
        return [self._records.decode(line) for line in (lines + self._file.readline()).splitlines()]
