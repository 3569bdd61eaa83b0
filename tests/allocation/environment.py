"""A real cluster as the tests of allocation see it: nodes and containers made past the operator, the operator behind a
proxy, and every revision of the store to judge it by."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from plimsoll.config import Config, Controllers, Kubernetes, LeaderElectionConfig, OperatorConfig
from plimsoll.controllers.allocation.controller import AllocationController, AllocationSettings
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.operator import identity
from tests.allocation.build import container_body, drive_annotations
from tests.allocation.judge import judge
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.life import Life
from tests.faults.proxy import Proxy
from tests.faults.record import Exchange, Record
from tests.faults.rules import Rules
from tests.faults.upstream import Direct, Json, RefusedError

CONTAINERS = "/apis/weka.weka.io/v1alpha1"
# The specification's lease, looked at more often: on a busy machine a session may take seconds.
TIMES = LeaseTimes(retry_period=timedelta(milliseconds=200))
# One that a test may outwait. Its sessions may come to nothing on a busy machine, so nothing is counted where it is used.
SHORT_LEASE = LeaseTimes(timedelta(seconds=3), timedelta(seconds=2), timedelta(milliseconds=200))
# Each operator looks once for leases of nodes that are gone: up to a second after its view is live, and a test may be over by then.
FIRST_SWEEP = Counter({"list leases": 1})


def config(namespace: str, *, read_only: bool = False, alone: bool = False) -> Config:
    """`alone`: what is in other namespaces is not served, so that several tests may share the cluster at a time."""
    return Config(
        operator=OperatorConfig(
            namespace=namespace,
            audit_log="",
            leader_election=LeaderElectionConfig(enabled=False),
            read_only_mode=read_only,
            watch_namespaces=(namespace,) if alone else (),
        ),
        controllers=Controllers(max_concurrent_reconciles=8),
        kubernetes=Kubernetes(qps=500, burst=1000, request_timeout=timedelta(seconds=10)),
    )


def settings(namespace: str, **changed: Any) -> AllocationSettings:
    fields: dict[str, Any] = {"namespace": namespace, "times": TIMES, "shortage_wait": timedelta(hours=1), **changed}
    return AllocationSettings(**fields)


class SuspendedClock(RealClock):
    """No time passes for whoever measures with it: his session lasts, however busy the machine or late his request is."""

    def __init__(self) -> None:
        self._stopped_at = super().monotonic()

    def monotonic(self) -> float:
        return self._stopped_at


class Allocator(Life):
    """A life with the allocation controller alone; nobody is elected."""

    async def look(self) -> None:
        """Have every key looked at, once the view is live."""
        await eventually(lambda: self.operator.not_ready() is None, "the view is live")
        await super().look()


class Stage:
    def __init__(
        self, namespace: str, nodes: list[str], direct: Direct, proxy: Proxy, rules: Rules, history: History
    ) -> None:
        self.namespace = namespace
        self.nodes = nodes
        self.direct = direct
        self.proxy = proxy
        self.rules = rules
        self.record: Record = proxy.record
        self.history = history
        self._judged_from = 0  # revisions before it are the test's own doing
        self.path = f"{CONTAINERS}/namespaces/{namespace}/wekacontainers"
        self.times = TIMES
        self.alone = False

    @asynccontextmanager
    async def operator(
        self, name: str = "a", *, clock: Clock | None = None, read_only: bool = False, **changed: Any
    ) -> AsyncIterator[Allocator]:
        time = clock or RealClock()
        terms = settings(self.namespace, **{"times": self.times, **changed})
        controller = AllocationController(terms, nonce=identity(), now=time.now)
        wanted = config(self.namespace, read_only=read_only, alone=self.alone)
        one = Allocator(await self.proxy.link(name), wanted, [controller], clock=time)
        try:
            yield one
        finally:
            await one.stop()

    # ── what people do ───────────────────────────────────────────────────────────────────────────────────────────────

    async def node(self, *drives: str, **fields: Any) -> str:
        """A node that nobody else uses, with these drives."""
        name = f"{self.namespace}-{len(self.nodes)}"
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": drive_annotations(drives, **fields)},
        }
        await self.direct.create("/api/v1/nodes", body)
        self.nodes.append(name)
        return name

    async def storage_annotations(self, node: str) -> dict[str, str]:
        """A node's annotations of the storage system: Kubernetes' own controllers write others whenever they like."""
        annotations = (await self.direct.get(f"/api/v1/nodes/{node}"))["metadata"]["annotations"]
        return {key: value for key, value in annotations.items() if key.startswith("weka.io/")}

    async def annotate_node(self, node: str, changed: Mapping[str, str | None]) -> None:
        await self.direct.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict(changed)}})

    async def remove_node(self, node: str) -> None:
        await self.direct.delete(f"/api/v1/nodes/{node}")
        self.nodes.remove(node)

    async def container(self, name: str, *, node: str, status: Mapping[str, Any] | None = None, **fields: Any) -> Json:
        made = await self.direct.create(self.path, container_body(name, node=node, **fields))
        if status is not None:
            made = await self.set_status(name, status)
        return made

    async def containers(self, count: int, *, node: str, prefix: str = "c", drives: int = 1) -> list[str]:
        names = [f"{prefix}{n:03}" for n in range(count)]
        for start in range(0, count, 50):
            some = names[start : start + 50]
            await asyncio.gather(*(self.container(name, node=node, drives=drives) for name in some))
        return names

    async def set_status(self, name: str, status: Mapping[str, Any] | None) -> Json:
        return await self.direct.patch(f"{self.path}/{name}/status", {"status": status})

    async def delete(self, name: str) -> None:
        await self.direct.delete(f"{self.path}/{name}")

    async def pod_of(self, container: Json, node: str) -> None:
        """The pod that a storage operator would run for the container."""
        meta = container["metadata"]
        owner = {
            "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaContainer", "name": meta["name"], "uid": meta["uid"],
            "controller": True,
        }  # fmt: skip
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": meta["name"], "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.org/none"}]},
        }
        await self.direct.create(f"/api/v1/namespaces/{self.namespace}/pods", body)

    async def leave(self) -> None:
        """Nothing of this test is left for the operators of the next one to see."""
        await self.direct.delete(self.path)

        async def gone() -> bool:
            return not (await self.direct.get(self.path))["items"]

        await eventually(gone, "the containers are gone")
        for node in [*self.nodes]:
            await self.remove_node(node)

    # ── what comes of it ─────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, name: str) -> Json:
        return await self.direct.get(f"{self.path}/{name}")

    async def allocations(self, name: str) -> Json:
        found: Json = (await self.get(name)).get("status", {}).get("allocations", {})
        return found

    async def condition(self, name: str, kind: str = "Allocated") -> Json:
        conditions = (await self.get(name)).get("status", {}).get("conditions", ())
        return next((one for one in conditions if one["type"] == kind), {})

    async def served(self, names: Iterable[str]) -> bool:
        """Whether all of these have ports, and as many drives as they asked for; and no proposal is left."""
        wanted = set(names)
        listing = await self.direct.get(self.path)
        found = {item["metadata"]["name"]: item for item in listing["items"]}
        return wanted <= set(found) and all(_complete(found[name]) for name in wanted)

    async def all_served(self, names: Sequence[str], *, seconds: float = 60) -> None:
        await eventually(lambda: self.served(names), f"{len(names)} containers are served", seconds=seconds)

    async def lease(self, node: str) -> Json | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/weka-allocator-{node}"
        try:
            return await self.direct.get(path)
        except RefusedError as error:
            if error.status != 404:
                raise
            return None

    async def events(self, reason: str) -> list[Json]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [one for one in (await self.direct.get(path))["items"] if one["reason"] == reason]

    async def event(self, reason: str) -> Json:
        found: list[Json] = await eventually(lambda: self.events(reason), f"an event {reason}")
        return found[-1]

    async def judged(self) -> None:
        """S1, S2, S3 over everything that was sent and every revision that there was."""
        await self.history.caught_up()
        judge(self.history, self.record, since=self._judged_from)

    async def own_doing(self) -> None:
        """What was given twice or taken away up to now was this test's own doing; judged is what follows."""
        await self.history.caught_up()
        self._judged_from = max((one.version for one in self.history.revisions()), default=0) + 1

    def calls(self, *, since: int = 0) -> Counter[str]:
        """What the operator asked for itself, by sort: watches, what fills the view, and events are the runtime's."""
        return Counter(exchange.call.sort for exchange in self.work(since=since))

    def work(self, *, since: int = 0) -> list[Exchange]:
        return [
            exchange
            for exchange in list(self.record)[since:]
            if exchange.call.resource in ("leases", "wekacontainers", "nodes")
            and exchange.call.verb != "watch"
            and not (exchange.call.verb == "list" and "resourceVersion" in exchange.call.params)
        ]


def _complete(item: Json) -> bool:
    status, spec = item.get("status", {}), item["spec"]
    allocations = status.get("allocations", {})
    proposed = any(one["type"] == "AllocationProposed" for one in status.get("conditions", ()))
    return (
        not proposed
        and bool(allocations.get("wekaPort"))
        and bool(allocations.get("agentPort"))
        and (len(allocations.get("drives", ())) >= spec.get("numDrives", 0) or bool(allocations.get("virtualDrives")))
    )


def parsed(text: str) -> Any:
    return json.loads(text)
