"""The embedded cluster: the API server and everyone who works on its objects, built in one place."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self

import msgspec

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.admission import Ask
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.api.server import ApiServer, Request
from plimsoll.embedded_cluster.api.storage import HISTORY
from plimsoll.embedded_cluster.api.timestamps import parsed
from plimsoll.embedded_cluster.controllers.context import Context, Times
from plimsoll.embedded_cluster.controllers.daemon_sets import DaemonSetController
from plimsoll.embedded_cluster.controllers.deployments import DeploymentController
from plimsoll.embedded_cluster.controllers.disruption_budgets import BudgetController
from plimsoll.embedded_cluster.controllers.garbage_collector import GarbageCollector, NamespaceController
from plimsoll.embedded_cluster.controllers.heartbeats import Heartbeats
from plimsoll.embedded_cluster.controllers.kubelets import Kubelets
from plimsoll.embedded_cluster.controllers.node_lifecycle import NodeLifecycleController
from plimsoll.embedded_cluster.controllers.replica_sets import ReplicaSetController
from plimsoll.embedded_cluster.controllers.scheduler import Scheduler
from plimsoll.embedded_cluster.controllers.stateful_sets import StatefulSetController
from plimsoll.embedded_cluster.controllers.volumes import VolumeController
from plimsoll.embedded_cluster.node_spec import parse_node_line
from plimsoll.embedded_cluster.timers import Agenda
from plimsoll.kube.client.in_process import Reply
from plimsoll.runtime.clock import Clock

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NODE_ADDRESSES = 10 << 24  # 10.0.0.0/9; pods are in the other half
# How AWS's termination handler marks a spot node that has got its notice.
SPOT_NOTICE = {"key": "aws-node-termination-handler/spot-itn", "value": "true", "effect": "NoSchedule"}


class Cluster:
    """`async with Cluster(clock) as cluster`. The same seed, and the same requests at the same moments, give the same history."""

    def __init__(
        self, clock: Clock, *, seed: int = 0, times: Times | None = None, ask: Ask | None = None, history: int = HISTORY
    ) -> None:
        """ask: how webhooks are called; None: they are not."""
        rng = random.Random(seed)  # noqa: S311 (the same in every run is what is wanted)
        self.clock = clock
        self.agenda = Agenda(clock)
        self._rng = rng
        self._times = times or Times()
        self._ask = ask
        self._history = history
        self._node_numbers = 0

    async def __aenter__(self) -> Self:
        self.api = ApiServer(
            self.agenda, self._rng, ask=self._ask, history=self._history,
            bookmark_seconds=self._times.bookmark, watch_seconds=self._times.watch,
        )  # fmt: skip
        self.context = Context(self.api.objects, self.agenda, self._rng, self._times)
        self.garbage = GarbageCollector(self.context)
        self.kubelets = Kubelets(self.context)
        if self._times.heartbeat:
            self.heartbeats = Heartbeats(self.context, self.kubelets, every_seconds=self._times.heartbeat)
        self._controllers = (
            NamespaceController(self.context),
            NodeLifecycleController(self.context),
            Scheduler(self.context),
            ReplicaSetController(self.context),
            DeploymentController(self.context),
            StatefulSetController(self.context),
            DaemonSetController(self.context),
            BudgetController(self.context),
            VolumeController(self.context),
        )
        self.agenda.every(60.0, self._forget_events)
        for name in _NAMESPACES:
            await self.api.objects.create(kinds.NAMESPACES, "", {"metadata": {"name": name}})
        return self

    async def __aexit__(self, *_: object) -> None:
        self.agenda.close()
        await self.context.work.stop()
        self.api.close_watches()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: bytes,
        content_type: str,
        *,
        user_agent: str = "plimsoll",
    ) -> Reply:
        """The server for `plimsoll.kube.client.in_process`. Who asks is told apart by the user agent."""
        answer = await self.api.handle(Request(method, path, params, body, content_type, user_agent=user_agent))
        if answer.watch is not None:
            chunks: AsyncIterator[bytes] = answer.watch.chunks()
            return Reply(answer.status, chunks=chunks)
        text = msgspec.json.encode(answer.body) if answer.text is None else answer.text.encode()
        return Reply(answer.status, text, retry_after_seconds=answer.retry_after_seconds)

    def all(self, kind: Kind, namespace: str = "") -> tuple[Json, ...]:
        return tuple(self.api.storage.collection(kind).all(namespace))

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "default") -> Json:
        return await self.api.objects.create(kind, namespace if kind.namespaced else "", body)

    async def settled(self) -> None:
        """Wait until the controllers have nothing in hand; what is only due later is not waited for."""
        await self.context.work.done()

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def add_nodes(self, line: str) -> list[str]:
        """Nodes as a line describes them, `3 zone=a class=spot cpu=8`; their names."""
        wanted = parse_node_line(line)
        names = []
        for _ in range(wanted.count):
            self._node_numbers += 1
            name = f"{wanted.prefix}-{self._node_numbers}"
            address = ".".join(str(byte) for byte in (_NODE_ADDRESSES + self._node_numbers).to_bytes(4, "big"))
            await self.api.objects.create(kinds.NODES, "", wanted.manifest(name, address, kubelet="plimsoll"))
            names.append(name)
        return names

    def reclaim(self, node: str, *, notice_seconds: float | None = None) -> None:
        """The cloud takes a spot node back: it is marked now, and gone with its pods once the notice is over."""
        found = self.api.objects.get(kinds.NODES, "", node)
        taints = [*at(found, "spec", "taints", default=[]), SPOT_NOTICE]
        self.api.storage.put(kinds.NODES, {**found, "spec": {**found["spec"], "taints": taints}})
        seconds = self._times.spot_notice if notice_seconds is None else notice_seconds
        self.agenda.later(seconds, lambda: self.remove_node(node))

    def remove_node(self, node: str) -> None:
        if self.api.storage.node(node) is not None:
            self.api.storage.remove(kinds.NODES, "", node)

    # ── what was there before ────────────────────────────────────────────────────────────────────────────────────────

    def load(self, kind: Kind, objects: Iterable[Json]) -> None:
        """Put objects in place with their status, as a snapshot has them: nothing is checked.

        What a snapshot leaves out because it goes without saying is filled in: else the first write to a pod would seem to change
        what nobody may change.
        """
        writer = self.api.objects.writer
        now = writer.now()
        for obj in objects:
            metadata = {"creationTimestamp": now, **obj["metadata"]}
            if "uid" not in metadata:
                metadata["uid"] = writer.new_uid()
            whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj, "metadata": metadata}
            self.api.storage.put(kind, writer.in_form(kind, whole))

    def _forget_events(self) -> None:
        now = self.clock.now()
        for event in self.all(kinds.CORE_EVENTS):
            last = (
                at(event, "series", "lastObservedTime")
                or event.get("lastTimestamp")
                or event["metadata"]["creationTimestamp"]
            )
            if (now - parsed(last)).total_seconds() > self._times.event_life:
                self.api.storage.remove(kinds.CORE_EVENTS, event["metadata"]["namespace"], name_of(event))
