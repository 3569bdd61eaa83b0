"""A small cluster in virtual time, and what tests do to it."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.server import ApiRequest, ApiResponse
from plimsoll.embedded_cluster.clocks import VirtualClock, run_virtually
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.embedded_cluster.controllers.pods import pod_is_active, pod_is_ready
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.in_process import InProcessTransport
from plimsoll.runtime.clock import Clock

MERGE = "application/merge-patch+json"
# Longer than anything that is under way takes, and shorter than what is due later.
A_WHILE = 5.0
SHORT = ClusterTimings(pod_start=1.0, pod_stop=1.0)


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test in virtual time: an hour of the cluster takes no time at all."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtually(test(*arguments, **named))

    return run


@asynccontextmanager
async def cluster(
    *lines: str, seed: int = 0, times: ClusterTimings = SHORT, **more: Any
) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(VirtualClock(), seed=seed, times=times, **more) as made:
        for line in lines:
            await made.add_nodes(line)
        await asyncio.sleep(A_WHILE)
        yield made
        assert made.errors == []


def client(made: EmbeddedCluster, clock: Clock | None = None) -> Client:
    """The operator's client, without a socket in between."""
    clock = clock or made.clock
    transport = InProcessTransport(made.serve, clock)
    return Client(Credentials("http://embedded"), clock=clock, qps=10_000, burst=10_000, transport=transport)


def deployment(name: str = "web", *, replicas: int = 3, pod: Json | None = None, **spec: Any) -> Json:
    labels = {"app": name}
    containers = [{"name": "main", "image": "example.org/none:1", "resources": {"requests": {"cpu": "100m"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **(pod or {})}}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"metadata": {"name": name}, "spec": body}


async def ask(
    made: EmbeddedCluster, method: str, path: str, body: bytes = b"", form: str = "application/json", **params: str
) -> ApiResponse:
    return await made.api.handle(ApiRequest(method, path, params, body, form))


async def patch(made: EmbeddedCluster, kind: ResourceKind, name: str, body: Json, namespace: str = "default") -> Json:
    after, _ = await made.api.objects.patch(kind, namespace if kind.namespaced else "", name, body, MERGE)
    return after


def pods(made: EmbeddedCluster, app: str = "web") -> list[Json]:
    """Those that are there to stay."""
    found = made.all(kinds.PODS)
    return [pod for pod in found if at(pod, "metadata", "labels", "app") == app and pod_is_active(pod)]


def ready_pods(made: EmbeddedCluster, app: str = "web") -> list[Json]:
    return [pod for pod in pods(made, app) if pod_is_ready(pod)]


def by_label(made: EmbeddedCluster, found: list[Json], label: str = "topology.kubernetes.io/zone") -> Counter[str]:
    nodes = {name_of(node): node for node in made.all(kinds.NODES)}
    return Counter(at(nodes[pod["spec"]["nodeName"]], "metadata", "labels", label, default="") for pod in found)
