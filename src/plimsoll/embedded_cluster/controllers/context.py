"""What every controller of the cluster is given, and the one queue from which all their work is done."""

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
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.api.objects import Objects
from plimsoll.embedded_cluster.api.status import Refused
from plimsoll.embedded_cluster.api.storage import Change, Storage
from plimsoll.embedded_cluster.api.timestamps import fine_stamp, stamp
from plimsoll.embedded_cluster.timers import Agenda

log = structlog.get_logger()

Key = tuple[str, str]  # namespace and name
Reconcile = Callable[[Key], Awaitable[None]]
# As client-go's work queues have it: a key that fails is looked at again after 5 ms, and after twice as long each time that it fails
# again, up to 1,000 s. A change of what it is about wakes it at once, however long it would wait.
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.005, 1000.0
_MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class Times:
    """How long things take in this cluster, in seconds."""

    node_ready: float = 0.0  # from a Node's registration to its being ready
    pod_start: float = 0.0  # from being bound to being ready
    pod_stop: float = 0.0  # from the request to stop to being gone; at most the pod's grace
    node_silent: float = 50.0  # from a kubelet's last word to the node's being taken for lost
    spot_notice: float = 120.0  # from the notice to the end of a spot node
    event_life: float = 3600.0
    heartbeat: float = 0.0  # between two renewals of a node's lease; 0: nodes have none
    bookmark: float = 60.0  # between two bookmarks of a watch
    watch: float = 0.0  # how long a watch lasts at least, however short a one was asked for


class Work:
    """Keys to be looked at, one after the other, whoever's they are: the order is the same in every run."""

    def __init__(self) -> None:
        self._queue: dict[tuple[Reconcile, Key], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        self._setbacks: dict[tuple[Reconcile, Key], int] = {}  # in a row
        self._set_back: set[tuple[Reconcile, Key]] = set()  # in this very turn
        self.retries: dict[tuple[Reconcile, Key], float] = {}  # when the next one is due

    def setback(self, reconcile: Reconcile, key: Key) -> float:
        """It did not get all done in this turn; after how many seconds it is to be looked at again."""
        entry = (reconcile, key)
        self._set_back.add(entry)
        times = self._setbacks[entry] = self._setbacks.get(entry, 0) + 1
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
            except Exception:
                # A controller that fails over one key must not take the others with it.
                self.failures += 1
                log.exception("a controller of the embedded cluster failed", key=key)
            if entry not in self._set_back:
                self._setbacks.pop(entry, None)
            self._set_back.discard(entry)
            await asyncio.sleep(0)
        self._task = None

    async def stop(self) -> None:
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


@dataclass(frozen=True)
class Context:
    objects: Objects
    agenda: Agenda
    rng: random.Random
    times: Times
    work: Work = field(default_factory=Work)

    @property
    def storage(self) -> Storage:
        return self.objects.storage

    def now(self) -> datetime:
        return self.agenda.clock.now()

    def stamp(self) -> str:
        return stamp(self.now())

    def on_change(self, kind: Kind, listener: Callable[[Change], None]) -> None:
        self.storage.collection(kind).listeners.append(listener)

    def again(self, reconcile: Reconcile, key: Key, seconds: float) -> None:
        self.agenda.later(seconds, lambda: self.work.add(reconcile, key))

    def retry(self, reconcile: Reconcile, key: Key) -> None:
        """The server refused something: try again, more and more patiently."""
        entry, retries = (reconcile, key), self.work.retries
        seconds = self.work.setback(reconcile, key)
        due = self.agenda.clock.monotonic() + seconds
        if retries.get(entry, math.inf) <= due:
            return  # it is looked at before that anyway

        def look() -> None:
            if retries.get(entry) == due:
                del retries[entry]
                self.work.add(reconcile, key)

        retries[entry] = due
        self.agenda.later(seconds, look)

    def put_status(self, kind: Kind, obj: Json, status: Mapping[str, Any]) -> Json:
        """Write a status if it is another; the object may have changed since it was read."""
        current = self.storage.get(kind, namespace_of(obj), name_of(obj))
        if current is None or uid_of(current) != uid_of(obj) or current.get("status") == status:
            return obj
        return self.storage.put(kind, {**current, "status": dict(status)})

    async def create(self, kind: Kind, namespace: str, body: Json) -> Json | None:
        """Create an object; None where the server refuses, as a quota or a webhook may."""
        try:
            return await self.objects.create(kind, namespace, body)
        except Refused as refusal:
            log.info(
                "creation refused in the embedded cluster", kind=kind.kind, namespace=namespace, why=refusal.message
            )
            return None

    def delete(self, kind: Kind, obj: Json, **options: Any) -> None:
        """Delete an object, unless it is gone or another by now."""
        current = self.storage.get(kind, namespace_of(obj), name_of(obj))
        if current is not None and uid_of(current) == uid_of(obj):
            self.objects.writer.delete(kind, current, options)

    def tell(self, kind: Kind, obj: Json, reason: str, message: str, *, source: str, warning: bool = False) -> None:
        """An event about an object, for `kubectl describe`."""
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
                    "creationTimestamp": stamp(now),
                },
                "involvedObject": involved,
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": source},
                "reportingComponent": source,
                "reportingInstance": "",
                "firstTimestamp": stamp(now),
                "lastTimestamp": stamp(now),
                "eventTime": fine_stamp(now),
                "count": 1,
            },
        )


def key_of(obj: Json) -> Key:
    return namespace_of(obj), name_of(obj)
