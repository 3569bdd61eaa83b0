"""The context that every controller of the embedded cluster receives, and the work queue that they share."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, name_of, namespace_of, uid_of
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.objects import Objects
from plimsoll.embedded_cluster.api.status import StatusError
from plimsoll.embedded_cluster.api.storage import ObjectChange, Storage
from plimsoll.embedded_cluster.api.timestamps import micro_timestamp, timestamp
from plimsoll.embedded_cluster.timers import Timers

log = structlog.get_logger()

Key = tuple[str, str]  # namespace and name
Reconcile = Callable[[Key], Awaitable[None]]
# As in client-go's work queues: a key that fails is requeued after 5 ms, and the delay doubles with each failure up to 1,000 s.
# A change of the object requeues it at once.
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.005, 1000.0
_MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class ClusterTimings:
    """Durations in this cluster, in seconds."""

    node_ready: float = 0.0  # from a Node's registration to Ready
    pod_start: float = 0.0  # from binding to Ready
    pod_stop: float = 0.0  # from deletion to removal, at most the pod's grace period
    node_silent: float = 50.0  # from a kubelet's last report to Ready=Unknown
    spot_notice: float = 120.0  # from the interruption notice to the end of a spot node
    event_life: float = 3600.0
    heartbeat: float = 0.0  # between two renewals of a node's lease; 0: no leases
    bookmark: float = 60.0  # between two bookmarks of a watch
    watch: float = 0.0  # minimum duration of a watch, whatever the client requests


class ControllerQueue:
    """Reconciles keys of all controllers one after the other, in the same order in every run."""

    def __init__(self) -> None:
        self._queue: dict[tuple[Reconcile, Key], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.errors: list[str] = []  # of reconciles that failed
        self._retry_counts: dict[tuple[Reconcile, Key], int] = {}  # consecutive retries
        self._requeued: set[tuple[Reconcile, Key]] = set()  # during the current reconcile
        self.retries: dict[tuple[Reconcile, Key], float] = {}  # when the next retry is due

    def next_backoff(self, reconcile: Reconcile, key: Key) -> float:
        """Count a retry of the key and return the delay in seconds."""
        entry = (reconcile, key)
        self._requeued.add(entry)
        times = self._retry_counts[entry] = self._retry_counts.get(entry, 0) + 1
        return min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(times - 1, _MOST_DOUBLINGS))

    def add(self, reconcile: Reconcile, key: Key) -> None:
        self._queue[reconcile, key] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="controllers")

    async def done(self) -> None:
        """Wait until nothing is queued."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while self._queue:
            entry = next(iter(self._queue))
            del self._queue[entry]
            reconcile, key = entry
            try:
                await reconcile(key)
            except Exception as error:
                # One key that fails must not stop the others.
                name = getattr(reconcile, "__qualname__", "reconcile").partition(".")[0]
                self.errors.append(f"{name} {'/'.join(key).lstrip('/')}: {error!r}")
                log.exception("controller of the embedded cluster failed", controller=name, key=key)
            if entry not in self._requeued:
                self._retry_counts.pop(entry, None)
            self._requeued.discard(entry)
            await asyncio.sleep(0)
        self._task = None

    async def stop(self) -> None:
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


@dataclass(frozen=True)
class ControllerContext:
    """What controllers share: objects, timers, the random generator and the work queue."""

    objects: Objects
    timers: Timers
    rng: random.Random
    times: ClusterTimings
    queue: ControllerQueue = field(default_factory=ControllerQueue)
    pod_events: bool = False  # whether pods get Scheduled, Started and Killing events

    @property
    def storage(self) -> Storage:
        return self.objects.storage

    def now(self) -> datetime:
        return self.timers.clock.now()

    def timestamp(self) -> str:
        return timestamp(self.now())

    def on_change(self, kind: ResourceKind, listener: Callable[[ObjectChange], None]) -> None:
        self.storage.collection(kind).listeners.append(listener)

    def requeue_after(self, reconcile: Reconcile, key: Key, seconds: float) -> None:
        self.timers.call_later(seconds, lambda: self.queue.add(reconcile, key))

    def requeue_with_backoff(self, reconcile: Reconcile, key: Key) -> None:
        """Requeue a key after the API server refused a write; the delay doubles with each consecutive refusal."""
        entry, retries = (reconcile, key), self.queue.retries
        seconds = self.queue.next_backoff(reconcile, key)
        due = self.timers.clock.monotonic() + seconds
        if retries.get(entry, math.inf) <= due:
            return  # an earlier retry is already scheduled

        def requeue() -> None:
            if retries.get(entry) == due:
                del retries[entry]
                self.queue.add(reconcile, key)

        retries[entry] = due
        self.timers.call_later(seconds, requeue)

    def put_status(self, kind: ResourceKind, obj: Json, status: Mapping[str, Any]) -> Json:
        """Write a status if it differs; the object may have changed since it was read."""
        current = self.storage.get(kind, namespace_of(obj), name_of(obj))
        if current is None or uid_of(current) != uid_of(obj) or current.get("status") == status:
            return obj
        return self.storage.put(kind, {**current, "status": dict(status)})

    async def create(self, kind: ResourceKind, namespace: str, body: Json) -> Json | None:
        """Create an object; None if the server refuses, as a quota or a webhook may."""
        try:
            return await self.objects.create(kind, namespace, body)
        except StatusError as refusal:
            log.info(
                "creation refused in the embedded cluster", kind=kind.kind, namespace=namespace, why=refusal.message
            )
            return None

    def delete(self, kind: ResourceKind, obj: Json, **options: Any) -> None:
        """Delete an object, unless it is gone or was recreated."""
        current = self.storage.get(kind, namespace_of(obj), name_of(obj))
        if current is not None and uid_of(current) == uid_of(obj):
            self.objects.writer.delete(kind, current, options)

    def record_pod_event(self, pod: Json, reason: str, message: str, *, source: str) -> None:
        """Record an event of a pod's life, if they are enabled: in a simulated day they would be most of the objects."""
        if self.pod_events:
            self.record_event(kinds.PODS, pod, reason, message, source=source)

    def record_event(
        self, kind: ResourceKind, obj: Json, reason: str, message: str, *, source: str, warning: bool = False
    ) -> None:
        """Record an event about an object, for `kubectl describe`."""
        namespace = namespace_of(obj) or "default"
        home = self.storage.get(kinds.NAMESPACES, "", namespace)
        if home is None or "deletionTimestamp" in home["metadata"]:
            return
        now = self.now()
        involved = {
            "kind": kind.kind, "apiVersion": kind.api_version, "name": name_of(obj), "uid": uid_of(obj),
            "namespace": namespace_of(obj), "resourceVersion": obj["metadata"].get("resourceVersion", ""),
        }  # fmt: skip
        name = f"{name_of(obj)}.{self.rng.getrandbits(64):016x}"
        self.storage.put(
            kinds.CORE_EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": self.objects.writer.new_uid(),
                    "creationTimestamp": timestamp(now),
                },
                "involvedObject": involved,
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": source},
                "reportingComponent": source,
                "reportingInstance": "",
                "firstTimestamp": timestamp(now),
                "lastTimestamp": timestamp(now),
                "eventTime": micro_timestamp(now),
                "count": 1,
            },
        )


def object_key(obj: Json) -> Key:
    return namespace_of(obj), name_of(obj)
