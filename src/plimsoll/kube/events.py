"""Records Kubernetes events in the background: a reconcile never waits for one, and repeats become a series.

An event that repeats within six minutes for the same object raises the count of the first one. Each object has its own budget,
so that one noisy workload neither floods the API server nor silences the others. The actuator calls `EventRecorder.record`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import structlog
from msgspec import Struct

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError, NotFound
from plimsoll.kube.codec import micro_time
from plimsoll.kube.types.resources import EVENTS
from plimsoll.runtime.clock import Clock, wait_on_clock

log = structlog.get_logger()

SERIES_SECONDS = 360.0  # the API convention for when a series ends
SERIES_UPDATE_SECONDS = 10.0  # minimum interval between two updates of a count
BURST_PER_OBJECT = 25  # kube-controller-manager's figures: 25 at once, then one every five minutes
REFILL_SECONDS = 300.0
NOTE_BYTES = 1024  # the API server refuses longer notes
WAITING_LIMIT = 1000
REMEMBERED_LIMIT = 4096
FLUSH_SECONDS = 2.0  # for the events that are left when the process stops


class NewEvent(Struct, frozen=True):
    """An event to record, with a full reference to its object."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    note: str
    action: str
    type: Literal["Normal", "Warning"] = "Normal"


class _Series(Struct):
    """A recorded event and its repeats."""

    event_name: str
    count: int
    unwritten: bool  # repeats were counted that the API server does not know
    last_at: float
    written_at: float


class _Allowance(Struct):
    tokens: float
    filled_at: float


class EventRecorder:
    """Accepts events at any rate and writes them at a bounded one."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        controller: str,
        instance: str,
        on_result: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._controller = controller
        self._instance = instance
        self._on_result = on_result  # "created", "repeated", "dropped" or "failed"
        self._waiting: asyncio.Queue[NewEvent] = asyncio.Queue(WAITING_LIMIT)
        self._series: OrderedDict[NewEvent, _Series] = OrderedDict()
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._serial = 0
        self._counts_written_at = clock.monotonic()

    def record(self, event: NewEvent) -> None:
        """Queue an event. It never blocks or raises: an event matters less than the reconcile that emits it."""
        if not self._allowed(event):
            self._on_result("dropped")
            return
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            self._on_result("dropped")

    async def run(self) -> None:
        """Write queued events until cancelled; then flush for up to `FLUSH_SECONDS`."""
        try:
            while True:
                try:
                    # The time-out writes counts and ends series; without a series neither is needed.
                    seconds = SERIES_UPDATE_SECONDS if self._series else None
                    event = await wait_on_clock(self._clock, self._waiting.get(), seconds)
                except TimeoutError:
                    await self._write_counts(every=False)
                    continue
                await self._write(event)
                # Under a constant stream of events the time-out never fires, so write due counts here, too.
                if self._clock.monotonic() - self._counts_written_at >= SERIES_UPDATE_SECONDS:
                    await self._write_counts(every=False)
        finally:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._flush()
            except TimeoutError:
                log.warning("events left unwritten", count=self._waiting.qsize())

    async def _flush(self) -> None:
        while not self._waiting.empty():
            await self._write(self._waiting.get_nowait())
        await self._write_counts(every=True)

    async def _write(self, event: NewEvent) -> None:
        now = self._clock.monotonic()
        series = self._series.get(event)
        if series is not None and now - series.last_at < SERIES_SECONDS:
            series.count, series.unwritten, series.last_at = series.count + 1, True, now
            # Write the first repeat at once, so that a person sees that it continues.
            if series.count == 2 or now - series.written_at >= SERIES_UPDATE_SECONDS:
                await self._write_count(event, series)
            return
        name = self._name(event)
        try:
            await self._client.create(EVENTS, event.namespace or "default", self._body(event, name))
        except KubeError as error:
            log.warning("cannot record event", reason=event.reason, object=event.name, error=str(error))
            self._on_result("failed")
            return
        self._series[event] = _Series(name, 1, unwritten=False, last_at=now, written_at=now)
        self._series.move_to_end(event)
        while len(self._series) > REMEMBERED_LIMIT:
            self._series.popitem(last=False)
        self._on_result("created")

    async def _write_counts(self, *, every: bool) -> None:
        self._counts_written_at = now = self._clock.monotonic()
        for event, series in list(self._series.items()):
            if series.unwritten and (every or now - series.written_at >= SERIES_UPDATE_SECONDS):
                await self._write_count(event, series)
            elif now - series.last_at >= SERIES_SECONDS:
                del self._series[event]

    async def _write_count(self, event: NewEvent, series: _Series) -> None:
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(self._clock.now())}}
        series.written_at = self._clock.monotonic()
        try:
            await self._client.patch(EVENTS, event.namespace or "default", series.event_name, body)
        except NotFound:
            self._series.pop(event, None)  # the event has expired; the next repeat starts a new series
        except KubeError as error:
            log.warning("cannot update event count", reason=event.reason, object=event.name, error=str(error))
            self._on_result("failed")
        else:
            series.unwritten = False
            self._on_result("repeated")

    def _allowed(self, event: NewEvent) -> bool:
        now = self._clock.monotonic()
        allowance = self._allowances.get(event.uid)
        if allowance is None:
            allowance = self._allowances[event.uid] = _Allowance(float(BURST_PER_OBJECT), now)
            while len(self._allowances) > REMEMBERED_LIMIT:
                self._allowances.popitem(last=False)
        allowance.tokens = min(float(BURST_PER_OBJECT), allowance.tokens + (now - allowance.filled_at) / REFILL_SECONDS)
        allowance.filled_at = now
        if event in self._series:
            return True  # a repeat costs at most one write per ten seconds, whatever its rate
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    def _name(self, event: NewEvent) -> str:
        # Unique to this process and event, so that a create whose reply was lost can be retried without a duplicate.
        self._serial += 1
        digest = hashlib.sha256(f"{self._instance}/{self._serial}/{event.uid}".encode()).hexdigest()[:16]
        return f"{event.name[:200].rstrip('.-')}.{digest}"

    def _body(self, event: NewEvent, name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": event.namespace or "default"},
            "eventTime": micro_time(self._clock.now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance[:128],
            "action": event.action[:128],
            "reason": event.reason[:128],
            "type": event.type,
            "note": shortened(event.note, NOTE_BYTES),
            "regarding": {
                "apiVersion": event.api_version,
                "kind": event.kind,
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
        }


def shortened(text: str, limit_bytes: int) -> str:
    """Truncate `text` to a limit of UTF-8 bytes, marking the cut with an ellipsis."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    return data[: limit_bytes - 3].decode(errors="ignore") + "…"
