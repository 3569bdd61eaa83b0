"""Leader election with a Lease, on a clock that does not jump.

A lease tells who should work; it is not a fence. A leader that was stopped for a minute wakes up believing in itself, so
every tenure has an *epoch* (the resourceVersion of the write that acquired it) and everyone asks `epoch()` again right
before each write. What still slips through carries preconditions that make it harmless.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol

import structlog
from msgspec import Struct

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from plimsoll.kube.codec import micro_time
from plimsoll.kube.types.resources import LEASES
from plimsoll.kube.types.stored import Lease
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

# How long giving the lease back may take; it runs out by itself if that fails.
RELEASE_SECONDS = 2.0


class Leadership(Protocol):
    """What the door asks before each write."""

    def epoch(self) -> str | None:
        """The tenure that is valid at this moment, or None."""
        ...


class Unled:
    """Leadership where no election is held: a single process, or one that only watches."""

    def epoch(self) -> str | None:
        return "unled"


class LeaseTimes(Struct, frozen=True):
    """Duration > renewal deadline > retry period: a holder gives up before anyone may follow it."""

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)


class _Sighting(Struct):
    """The lease as we last saw it change, and when that was by our own clock.

    Time stamps inside the lease are another machine's wall clock; only how long the record stays the same counts.
    """

    lease: Lease
    seen_at: float

    def expired(self, now: float) -> bool:
        seconds = self.lease.spec.lease_duration_seconds or 0
        return not self.lease.spec.holder_identity or now >= self.seen_at + seconds


class LeaderElection:
    """Campaigns for one lease until cancelled; holds it for as long as it can be renewed in time."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        annotations: Mapping[str, str | None] | None = None,
        on_elected: Callable[[str], None] = lambda _: None,
        on_resumed: Callable[[], None] = lambda: None,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        """on_resumed: the tenure had run out and was renewed before anyone took it: for a moment `epoch` was None."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity  # unique to this process: two processes must never take each other for themselves
        self._times = times or LeaseTimes()
        # What a holder says of itself, for the others to read; None takes away what the last one said.
        self.annotations: Mapping[str, str | None] = annotations or {}
        self._on_elected = on_elected
        self._on_resumed = on_resumed
        self._on_lost = on_lost
        self._sighting: _Sighting | None = None
        self._epoch: str | None = None
        self._acquiring = False  # a write that takes the lease was sent, and is not known to have failed
        self._valid_until = 0.0
        self._homeless = False

    def epoch(self) -> str | None:
        # Asked right before each write: a process that was stopped finds its time run out before it acts, not after.
        return self._epoch if self._clock.monotonic() < self._valid_until else None

    @property
    def holder(self) -> str:
        """Who holds the lease as far as we have seen; empty if nobody does."""
        return (self._sighting.lease.spec.holder_identity or "") if self._sighting else ""

    @property
    def holder_annotations(self) -> Mapping[str, str]:
        """What the holder says of itself; empty if nobody holds the lease."""
        return self._sighting.lease.annotations if self._sighting is not None and self.holder else {}

    async def run(self) -> None:
        """Campaign, lead, campaign again; on cancellation give the lease back at once."""
        retry_seconds = self._times.retry_period.total_seconds()
        try:
            while True:
                await self._once()
                self._drop_if_run_out()
                await self._clock.sleep(retry_seconds)
        finally:
            await self._release()

    async def _once(self) -> None:
        # Bounded, so that a call that hangs cannot carry the holder past its own deadline unnoticed.
        limit = self._times.renew_deadline.total_seconds() / 2
        try:
            async with asyncio.timeout(limit):
                await self._acquire_or_renew()
        except TimeoutError:
            log.warning("lease call timed out", lease=self._name, seconds=limit)
        except KubeError as error:
            log.warning("lease call failed", lease=self._name, error=str(error))

    async def _acquire_or_renew(self) -> None:
        if self._epoch is not None and self._sighting is not None:
            try:
                await self._renew(self._sighting.lease)
            except (Conflict, NotFound) as error:
                # Deleted, edited or taken by another: what the lease says now decides, not what we remember.
                log.info("lease changed under its holder", lease=self._name, error=str(error))
            else:
                return
        lease = await self._read()
        if lease is not None and lease.spec.holder_identity == self._identity:
            # Ours, but no tenure: the reply to the acquiring write was lost, or we gave up and nobody followed. Only a
            # write that succeeds now starts a tenure: another may be about to take what we have not renewed.
            await (self._acquire(lease) if self._epoch is None else self._renew(lease))
        elif self._epoch is not None:
            # Campaigning waits for the next round: a process that ends over this must not take the lease along.
            holder = lease.spec.holder_identity or "nobody" if lease is not None else ""
            self._lose(f"the lease is held by {holder}" if holder else "the lease was deleted")
        elif lease is None or (self._sighting is not None and self._sighting.expired(self._clock.monotonic())):
            await self._acquire(lease)

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name, urgent=True)
        except NotFound:
            self._sighting = None
            return None
        self._see(lease)
        return lease

    def _see(self, lease: Lease) -> None:
        known = self._sighting
        if known is None or known.lease.metadata.resource_version != lease.metadata.resource_version:
            self._sighting = _Sighting(lease, self._clock.monotonic())

    async def _acquire(self, lease: Lease | None) -> None:
        asked_at = self._clock.monotonic()
        now = micro_time(self._clock.now())
        spec = {
            "holderIdentity": self._identity,
            # Whole seconds, never fewer than we mean: others must not follow before we must have stopped.
            "leaseDurationSeconds": math.ceil(self._times.duration.total_seconds()),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": (lease.spec.lease_transitions or 0) + 1 if lease else 0,
        }
        self._acquiring = True
        try:
            if lease is None:
                said = {key: value for key, value in self.annotations.items() if value is not None}
                body = {
                    "metadata": {"name": self._name, "namespace": self._namespace, "annotations": said},
                    "spec": spec,
                }
                taken = await self._client.create(LEASES, self._namespace, body, urgent=True)
            else:
                taken = await self._client.patch(
                    LEASES, self._namespace, self._name, {"metadata": {"annotations": dict(self.annotations)}, "spec": spec},
                    uid=lease.metadata.uid, resource_version=lease.metadata.resource_version, urgent=True,
                )  # fmt: skip
        except (AlreadyExists, Conflict, NotFound) as error:
            self._acquiring = False
            if lease is None and isinstance(error, NotFound):
                self._tell_that_there_is_no_namespace()
            return  # another was faster; the next round sees who
        if taken.spec.holder_identity == self._identity:
            self._win(taken, asked_at)

    def _tell_that_there_is_no_namespace(self) -> None:
        """Once: it is looked for every few seconds."""
        if not self._homeless:
            log.error(
                "nobody can lead: the namespace of the lease does not exist", lease=self._name, namespace=self._namespace,
                remedy=f"kubectl create namespace {self._namespace}, or set operator.namespace to one that exists",
            )  # fmt: skip
        self._homeless = True

    async def _renew(self, lease: Lease) -> None:
        asked_at = self._clock.monotonic()
        renewed = await self._client.patch(
            LEASES, self._namespace, self._name, {"spec": {"renewTime": micro_time(self._clock.now())}},
            uid=lease.metadata.uid, resource_version=lease.metadata.resource_version, urgent=True,
        )  # fmt: skip
        self._see(renewed)
        ran_out = self.epoch() is None
        self._extend(asked_at)
        if ran_out and self.epoch() is not None:
            log.warning("lease renewed late", lease=self._name, identity=self._identity)
            self._on_resumed()

    def _win(self, lease: Lease, asked_at: float) -> None:
        self._acquiring = self._homeless = False
        self._sighting = _Sighting(lease, self._clock.monotonic())
        self._epoch = lease.metadata.resource_version
        self._extend(asked_at)
        log.info("leading", lease=self._name, identity=self._identity, epoch=self._epoch)
        self._on_elected(self._epoch)

    def _extend(self, asked_at: float) -> None:
        # From when we asked, not from when we were answered: others may count from any moment in between.
        self._valid_until = asked_at + self._times.renew_deadline.total_seconds()

    def _drop_if_run_out(self) -> None:
        if self._epoch is not None and self.epoch() is None:
            self._lose("it could not be renewed in time")

    def _lose(self, why: str) -> None:
        if self._epoch is None:
            return
        self._epoch, self._valid_until = None, 0.0
        log.error("leadership lost", lease=self._name, identity=self._identity, why=why)
        self._on_lost(why)

    async def _release(self) -> None:
        """Let the next one start at once instead of after a whole lease duration."""
        if self._epoch is None and not self._acquiring:
            return
        held = self._sighting.lease if self._epoch is not None and self._sighting is not None else None
        self._epoch = None
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                if held is not None:
                    try:
                        await self._give_back(held)
                    except Conflict as error:
                        log.info("lease changed under its holder", lease=self._name, error=str(error))
                    else:
                        return
                # An acquisition or a renewal that was cut short may have reached the server; or a person edited the lease.
                there = await self._read()
                if there is not None and there.spec.holder_identity == self._identity:
                    await self._give_back(there)
        except (KubeError, TimeoutError) as error:
            why = str(error) or f"no answer within {RELEASE_SECONDS:g} s"
            log.warning("lease not released; it runs out by itself", lease=self._name, error=why)

    async def _give_back(self, lease: Lease) -> None:
        body = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}}
        await self._client.patch(
            LEASES, self._namespace, self._name, body,
            uid=lease.metadata.uid, resource_version=lease.metadata.resource_version, urgent=True,
        )  # fmt: skip
        log.info("lease released", lease=self._name)
