"""Fills a control plane with the cluster that is measured, and changes its pods, as fast as the API server takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from pathlib import Path

from benchmarks.informer import objects
from benchmarks.informer.objects import REPLICAS
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS
from plimsoll.runtime.clock import RealClock

_AT_ONCE = 48  # requests under way: enough to keep the server's cores busy
_UNLIMITED = 1_000_000


def connect(kubeconfig: Path) -> Client:
    """A client that no rate limit of its own holds back."""
    # A loaded server on few cores may take its time over each of 48 requests.
    return Client(
        load_credentials(kubeconfig), clock=RealClock(), qps=_UNLIMITED, burst=_UNLIMITED, timeout_seconds=120
    )


async def fill(kubeconfig: Path, *, pods: int, nodes: int) -> None:
    """Create the nodes, and Deployments with their ReplicaSets and pods, each with the status that it would have."""
    deployments = -(-pods // REPLICAS)
    async with connect(kubeconfig) as client:
        names = {objects.namespace_of(number) for number in range(deployments)}
        await _all(client.create(NAMESPACES, "", {"metadata": {"name": name}}) for name in sorted(names))
        await _all(_node(client, number) for number in range(nodes))
        await _all(
            _deployment(client, number, nodes, min(REPLICAS, pods - number * REPLICAS)) for number in range(deployments)
        )


async def touch(kubeconfig: Path, *, pods: int, stamp: str) -> None:
    """Change so many pods, as a controller that annotates them would."""
    body = {"metadata": {"annotations": {objects.TOUCHED: stamp}}}
    async with connect(kubeconfig) as client:
        found = await client.list(PODS)
        await _all(client.patch(PODS, pod.namespace, pod.name, body) for pod in found.items[:pods])


async def _node(client: Client, number: int) -> None:
    await client.create(NODES, "", objects.node(number))
    status = {"status": objects.node_status(number)}
    await client.patch(NODES, "", objects.node_name(number), status, subresource="status")


async def _deployment(client: Client, number: int, nodes: int, pods: int) -> None:
    namespace = objects.namespace_of(number)
    deployment = await client.create(DEPLOYMENTS, namespace, objects.deployment(number))
    await client.create(REPLICASETS, namespace, objects.replicaset(number, 1, deployment.uid))
    replicaset = await client.create(REPLICASETS, namespace, objects.replicaset(number, 2, deployment.uid))
    counts = {"status": {"replicas": pods, "readyReplicas": pods, "availableReplicas": pods, "observedGeneration": 1}}
    await client.patch(DEPLOYMENTS, namespace, deployment.name, counts, subresource="status")
    await client.patch(REPLICASETS, namespace, replicaset.name, counts, subresource="status")
    for pod, status in objects.pods(number, replicaset.uid, nodes, pods):
        created = await client.create(PODS, namespace, pod)
        await client.patch(PODS, namespace, created.name, {"status": status}, subresource="status")


async def _all(calls: Iterable[Awaitable[object]]) -> None:
    """Make all calls, `_AT_ONCE` at a time."""
    waiting = iter(calls)

    async def worker() -> None:
        for call in waiting:
            await call

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
