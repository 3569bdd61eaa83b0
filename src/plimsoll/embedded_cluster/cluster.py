"""The embedded cluster: builds the API server, the controllers, the scheduler and the kubelets."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self

import msgspec

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.admission import WebhookCall
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.server import ApiRequest, ApiServer
from plimsoll.embedded_cluster.api.storage import HISTORY
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.embedded_cluster.controllers.context import ClusterTimings, ControllerContext
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
from plimsoll.embedded_cluster.timers import Timers
from plimsoll.kube.client.in_process import InProcessReply
from plimsoll.runtime.clock import Clock

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NODE_ADDRESSES = 10 << 24  # 10.0.0.0/9; pods are in the other half
# The taint of the AWS node termination handler on a spot node with an interruption notice.
SPOT_NOTICE = {"key": "aws-node-termination-handler/spot-itn", "value": "true", "effect": "NoSchedule"}


class EmbeddedCluster:
    """`async with Cluster(clock) as cluster`. The same seed and the same requests at the same times give the same history."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        times: ClusterTimings | None = None,
        ask: WebhookCall | None = None,
        history: int = HISTORY,
        pod_events: bool = False,
    ) -> None:
        """
        ask: calls admission webhooks; None: webhooks are not called.
        pod_events: record Scheduled, Started and Killing events, for `kubectl describe`.
        """
        self._pod_events = pod_events
        rng = random.Random(seed)  # noqa: S311 - runs must be reproducible
        self.clock = clock
        self.timers = Timers(clock)
        self._rng = rng
        self._times = times or ClusterTimings()
        self._ask = ask
        self._history = history
        self._node_numbers = 0

    async def __aenter__(self) -> Self:
        self.api = ApiServer(
            self.timers, self._rng, ask=self._ask, history=self._history,
            bookmark_seconds=self._times.bookmark, watch_seconds=self._times.watch,
        )  # fmt: skip
        self.context = ControllerContext(
            self.api.objects, self.timers, self._rng, self._times, pod_events=self._pod_events
        )
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
        self.timers.call_every(60.0, self._expire_events)
        for name in _NAMESPACES:
            await self.api.objects.create(kinds.NAMESPACES, "", {"metadata": {"name": name}})
        return self

    async def __aexit__(self, *_: object) -> None:
        self.timers.close()
        await self.context.queue.stop()
        self.api.close_watches()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def errors(self) -> list[str]:
        """Errors inside the cluster's own controllers and timers; after one, its behaviour is not Kubernetes' any more."""
        return [*self.context.queue.errors, *self.timers.errors]

    async def serve(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: bytes,
        content_type: str,
        *,
        user_agent: str = "plimsoll",
    ) -> InProcessReply:
        """Handle requests of `plimsoll.kube.client.in_process`. The user agent identifies the client."""
        answer = await self.api.handle(ApiRequest(method, path, params, body, content_type, user_agent=user_agent))
        if answer.watch is not None:
            chunks: AsyncIterator[bytes] = answer.watch.chunks()
            return InProcessReply(answer.status, chunks=chunks)
        text = msgspec.json.encode(answer.body) if answer.text is None else answer.text.encode()
        return InProcessReply(answer.status, text, retry_after_seconds=answer.retry_after_seconds)

    def all(self, kind: ResourceKind, namespace: str = "") -> tuple[Json, ...]:
        return tuple(self.api.storage.collection(kind).all(namespace))

    async def create(self, kind: ResourceKind, body: Mapping[str, Any], namespace: str = "default") -> Json:
        return await self.api.objects.create(kind, namespace if kind.namespaced else "", body)

    async def settled(self) -> None:
        """Wait until the work queue is empty. Timers that are due later are not waited for."""
        await self.context.queue.done()

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def add_nodes(self, line: str) -> list[str]:
        """Create the nodes that a line such as `3 zone=a class=spot cpu=8` describes, and return their names."""
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
        """The cloud reclaims a spot node: taint it now, and remove it with its pods when the notice is over."""
        found = self.api.objects.get(kinds.NODES, "", node)
        taints = [*at(found, "spec", "taints", default=[]), SPOT_NOTICE]
        self.api.storage.put(kinds.NODES, {**found, "spec": {**found["spec"], "taints": taints}})
        seconds = self._times.spot_notice if notice_seconds is None else notice_seconds
        self.timers.call_later(seconds, lambda: self.remove_node(node))

    def remove_node(self, node: str) -> None:
        if self.api.storage.node(node) is not None:
            self.api.storage.remove(kinds.NODES, "", node)

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, kind: ResourceKind, objects: Iterable[Json]) -> None:
        """Store objects with their status as a snapshot has them, without validation.

        Defaults that a snapshot omits are filled in; otherwise the first write to a pod would seem to change immutable fields.
        """
        writer = self.api.objects.writer
        now = writer.now()
        for obj in objects:
            metadata = {"creationTimestamp": now, **obj["metadata"]}
            if "uid" in metadata:
                writer.loaded_uids.add(metadata["uid"])
            else:
                metadata["uid"] = writer.new_uid()
            if kind.generation or kind.custom:
                metadata.setdefault("generation", 1)
            whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj, "metadata": metadata}
            self.api.storage.put(kind, writer.in_form(kind, whole))

    def _expire_events(self) -> None:
        now = self.clock.now()
        for event in self.all(kinds.CORE_EVENTS):
            last = (
                at(event, "series", "lastObservedTime")
                or event.get("lastTimestamp")
                or event["metadata"]["creationTimestamp"]
            )
            if (now - parse_timestamp(last)).total_seconds() > self._times.event_life:
                self.api.storage.remove(kinds.CORE_EVENTS, event["metadata"]["namespace"], name_of(event))
