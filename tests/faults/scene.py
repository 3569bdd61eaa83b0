"""A namespace of a real cluster, seen three ways: by its users, by the operator through the proxy, and revision by revision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.eventually import eventually
from tests.faults.example import KEEP, LEAVE, SEEN, kept_name
from tests.faults.history import History
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules
from tests.faults.runs import Run
from tests.faults.upstream import Direct, Json, RefusedError


class Scene:
    """What a test does to the cluster, always past the proxy."""

    def __init__(self, namespace: str, direct: Direct, proxy: Proxy, rules: Rules, history: History) -> None:
        self.namespace = namespace
        self.direct = direct
        self.proxy = proxy
        self.record: Record = proxy.record
        self.rules = rules
        self.history = history
        self.workloads: dict[str, str] = {}  # name → collection, of those that `deploy` made

    def path(self, collection: str, name: str = "") -> str:
        """The URL path of a namespaced collection ("pods", "apps/v1/deployments"), or of one object."""
        group = "" if "/" not in collection else collection.rpartition("/")[0]
        kind = collection.rpartition("/")[2]
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    # ── workloads ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def deploy(
        self, name: str = "web", *, replicas: int = 3, kind: str = "Deployment", leaving: int = 0, node: str = ""
    ) -> list[Json]:
        """A workload to be kept with all of its pods ready, on `node` if one is given; so many are asked to leave."""
        self.workloads[name] = collection = f"apps/v1/{kind.lower()}s"
        labels = {"app": name}
        spec: Json = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.org/none"}]}
                | ({"nodeName": node} if node else {}),
            },
        }
        if kind == "StatefulSet":
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        annotations = {KEEP: "true"}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
        }
        await self.direct.create(self.path(collection), body)
        pods: list[Json] = await eventually(lambda: self.all_ready(name, replicas), f"{replicas} ready pods of {name}")
        for pod in pods[:leaving]:
            await self.ask_to_leave(pod)
        return await self.pods(name)

    async def all_ready(self, name: str = "web", replicas: int = 3) -> list[Json]:
        """The pods of a workload if there are so many and all are ready, else nothing."""
        pods = await self.pods(name)
        return pods if len(pods) == replicas and all(is_ready(pod) for pod in pods) else []

    async def pods(self, name: str) -> list[Json]:
        """The pods of a workload, by name."""
        listing = await self.direct.get(self.path("pods"), {"labelSelector": f"app={name}"})
        return sorted(listing["items"], key=lambda pod: str(pod["metadata"]["name"]))

    async def ask_to_leave(self, pod: Json) -> None:
        await self.annotate("pods", pod["metadata"]["name"], {LEAVE: "true"})

    async def annotate(self, collection: str, name: str, annotations: Mapping[str, str | None]) -> None:
        await self.direct.patch(self.path(collection, name), {"metadata": {"annotations": dict(annotations)}})

    async def let_go(self, name: str = "web") -> None:
        """The workload is to be kept no longer."""
        await self.annotate(self.workloads[name], name, {KEEP: None})

    async def budget(self, name: str, *, of: str = "web", max_unavailable: int = 1) -> None:
        """A PodDisruptionBudget that its controller has counted."""
        spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": of}}}
        path = self.path("policy/v1/poddisruptionbudgets")
        await self.direct.create(
            path, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        )

        async def counted() -> bool:
            status = (await self.direct.get(f"{path}/{name}"))["status"]
            return bool(status.get("observedGeneration") and status["currentHealthy"] == status["expectedPods"] > 0)

        await eventually(counted, f"budget {name} is counted")

    async def find(self, collection: str, name: str) -> Json | None:
        try:
            return await self.direct.get(self.path(collection, name))
        except RefusedError as error:
            if error.status != 404:
                raise
            return None

    # ── what should come of it ───────────────────────────────────────────────────────────────────────────────────────

    async def reached(self) -> bool:
        """Whether the cluster is as the example controller wants it."""
        done = [await self._is_as_wanted(name, collection) for name, collection in self.workloads.items()]
        return all(done)

    async def comes_to_rest(self, run: Run) -> None:
        """L1 and L2: the cluster gets where it should be; then nothing more is written, however often one looks."""
        await eventually(self.reached, "the cluster is as the controller wants it")
        await run.rounds(1)  # what was still under way when the cluster was there is finished now
        mark = len(self.record)
        await run.rounds(2)
        assert self.record.works(since=mark) == [], "it goes on writing"
        assert await self.reached()
        await self.history.caught_up()

    async def _is_as_wanted(self, name: str, collection: str) -> bool:
        workload, kept = await asyncio.gather(self.find(collection, name), self.find("configmaps", kept_name(name)))
        if workload is None or KEEP not in workload["metadata"].get("annotations", {}):
            return kept is None
        pods = await self.pods(name)
        return (
            kept is not None
            and kept["data"] == {"uid": workload["metadata"]["uid"]}
            and len(pods) == workload["spec"]["replicas"]
            and all(is_ready(pod) and SEEN in _annotations(pod) and LEAVE not in _annotations(pod) for pod in pods)
        )


def is_ready(pod: Json) -> bool:
    """Running, ready and not about to go."""
    conditions = pod["status"].get("conditions", ())
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _annotations(item: Json) -> Mapping[str, Any]:
    found: Mapping[str, Any] = item["metadata"].get("annotations") or {}
    return found


@asynccontextmanager
async def scene_in(namespace: str, direct: Direct, proxy: Proxy, rules: Rules) -> AsyncIterator[Scene]:
    """A scene whose history begins now."""
    root = f"/api/v1/namespaces/{namespace}"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    async with History(direct, [f"{root}/pods", f"{root}/configmaps", leases]) as history:
        yield Scene(namespace, direct, proxy, rules, history)
