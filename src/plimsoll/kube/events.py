"""Events for people, recorded in the background: a reconcile never waits for one, and repeats become a series.

An event that says the same of the same object again within six minutes raises a count on the first one. Each object has a
budget of its own, so that one noisy workload neither floods the API server nor silences the others.
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
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

SERIES_SECONDS = 360.0  # the API's own convention for when a series is over
SERIES_UPDATE_SECONDS = 10.0  # a count that rises quickly is written at this pace
BURST_PER_OBJECT = 25  # kube-controller-manager's figures: 25 at once, then one every five minutes
REFILL_SECONDS = 300.0
NOTE_BYTES = 1024  # the API server refuses a longer note
WAITING_LIMIT = 1000
REMEMBERED_LIMIT = 4096
FLUSH_SECONDS = 2.0  # for what is left when the process stops


class NewEvent(Struct, frozen=True):
    """One event to record, with the object it is about spelled out."""

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
    """What was recorded of one happening, and what is still to be told."""

    event_name: str
    count: int
    untold: bool
    last_at: float
    told_at: float


class _Allowance(Struct):
    tokens: float
    filled_at: float


class EventRecorder:
    """Takes happenings at any rate, writes events at a bounded one."""

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
        self._counts_told_at = clock.monotonic()

    def record(self, happening: NewEvent) -> None:
        """Never blocks and never raises: an event is worth less than the work it tells of."""
        if not self._allowed(happening):
            self._on_result("dropped")
            return
        try:
            self._waiting.put_nowait(happening)
        except asyncio.QueueFull:
            self._on_result("dropped")

    async def run(self) -> None:
        """Write what was recorded until cancelled; then write what is left, for a moment."""
        try:
            while True:
                try:
                    # Counts are told at this pace, and ends of series noticed. Without a series there is neither.
                    async with asyncio.timeout(SERIES_UPDATE_SECONDS if self._series else None):
                        happening = await self._waiting.get()
                except TimeoutError:
                    await self._tell_counts(every=False)
                    continue
                await self._tell(happening)
                # Where something always happens, the counts of what no longer does must not wait for a pause.
                if self._clock.monotonic() - self._counts_told_at >= SERIES_UPDATE_SECONDS:
                    await self._tell_counts(every=False)
        finally:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._flush()
            except TimeoutError:
                log.warning("events left unwritten", count=self._waiting.qsize())

    async def _flush(self) -> None:
        while not self._waiting.empty():
            await self._tell(self._waiting.get_nowait())
        await self._tell_counts(every=True)

    async def _tell(self, happening: NewEvent) -> None:
        now = self._clock.monotonic()
        series = self._series.get(happening)
        if series is not None and now - series.last_at < SERIES_SECONDS:
            series.count, series.untold, series.last_at = series.count + 1, True, now
            # The first repeat is told at once, so that a person who looks sees that it goes on.
            if series.count == 2 or now - series.told_at >= SERIES_UPDATE_SECONDS:
                await self._tell_count(happening, series)
            return
        name = self._name(happening)
        try:
            await self._client.create(EVENTS, happening.namespace or "default", self._body(happening, name))
        except KubeError as error:
            log.warning("event not recorded", reason=happening.reason, about=happening.name, error=str(error))
            self._on_result("failed")
            return
        self._series[happening] = _Series(name, 1, untold=False, last_at=now, told_at=now)
        self._series.move_to_end(happening)
        while len(self._series) > REMEMBERED_LIMIT:
            self._series.popitem(last=False)
        self._on_result("created")

    async def _tell_counts(self, *, every: bool) -> None:
        self._counts_told_at = now = self._clock.monotonic()
        for happening, series in list(self._series.items()):
            if series.untold and (every or now - series.told_at >= SERIES_UPDATE_SECONDS):
                await self._tell_count(happening, series)
            elif now - series.last_at >= SERIES_SECONDS:
                del self._series[happening]

    async def _tell_count(self, happening: NewEvent, series: _Series) -> None:
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(self._clock.now())}}
        series.told_at = self._clock.monotonic()
        try:
            await self._client.patch(EVENTS, happening.namespace or "default", series.event_name, body)
        except NotFound:
            self._series.pop(happening, None)  # the event has expired; the next repeat starts anew
        except KubeError as error:
            log.warning("event count not recorded", reason=happening.reason, about=happening.name, error=str(error))
            self._on_result("failed")
        else:
            series.untold = False
            self._on_result("repeated")

    def _allowed(self, happening: NewEvent) -> bool:
        now = self._clock.monotonic()
        allowance = self._allowances.get(happening.uid)
        if allowance is None:
            allowance = self._allowances[happening.uid] = _Allowance(float(BURST_PER_OBJECT), now)
            while len(self._allowances) > REMEMBERED_LIMIT:
                self._allowances.popitem(last=False)
        allowance.tokens = min(float(BURST_PER_OBJECT), allowance.tokens + (now - allowance.filled_at) / REFILL_SECONDS)
        allowance.filled_at = now
        if happening in self._series:
            return True  # a repeat costs at most one write in ten seconds whatever its rate
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    def _name(self, happening: NewEvent) -> str:
        # Unique to this process and happening, so that a create whose reply was lost can be repeated without a twin.
        self._serial += 1
        digest = hashlib.sha256(f"{self._instance}/{self._serial}/{happening.uid}".encode()).hexdigest()[:16]
        return f"{happening.name[:200].rstrip('.-')}.{digest}"

    def _body(self, happening: NewEvent, name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": happening.namespace or "default"},
            "eventTime": micro_time(self._clock.now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance[:128],
            "action": happening.action[:128],
            "reason": happening.reason[:128],
            "type": happening.type,
            "note": shortened(happening.note, NOTE_BYTES),
            "regarding": {
                "apiVersion": happening.api_version,
                "kind": happening.kind,
                "namespace": happening.namespace,
                "name": happening.name,
                "uid": happening.uid,
            },
        }


def shortened(text: str, limit_bytes: int) -> str:
    """`text` within a limit of UTF-8 bytes, with a sign that something is missing."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    return data[: limit_bytes - 3].decode(errors="ignore") + "…"
