"""Leader election with a Lease, measured on the monotonic clock.

A lease is not a fence: a leader that was paused for a minute still believes it leads when it resumes. So each leadership term
is identified by the resourceVersion of the write that acquired the lease, and the actuator checks `term()` again right before
each write. Preconditions on the writes make harmless what still slips through.
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
from plimsoll.kube.lease_observation import LeaseObservation, observe_lease
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.resources import LEASES
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

# Time limit for releasing the lease; if it fails, the lease expires by itself.
RELEASE_SECONDS = 2.0


class Leadership(Protocol):
    """Answers whether this process leads; the actuator asks before each write."""

    def term(self) -> str | None:
        """The identifier of the leadership term that is valid now, or None."""
        ...


class AlwaysLeading:
    """Leadership without an election: for a single process, or a read-only one."""

    def term(self) -> str | None:
        return "unled"


class LeaseTimes(Struct, frozen=True):
    """Duration > renewal deadline > retry period: a leader stops before another may start."""

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)


class LeaderElection:
    """Competes for one lease until cancelled, and holds it while it can renew it in time."""

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
        """on_resumed: called when the term had expired and was renewed before another process took the lease."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity  # unique to this process
        self._times = times or LeaseTimes()
        # Annotations that the holder puts on the lease for other replicas; None removes one that an earlier holder put there.
        self.annotations: Mapping[str, str | None] = annotations or {}
        self._on_elected = on_elected
        self._on_resumed = on_resumed
        self._on_lost = on_lost
        self._lease: Lease | None = None  # as last observed
        self._observation: LeaseObservation | None = None
        self._term: str | None = None
        self._acquiring = False  # an acquiring write was sent and is not known to have failed
        self._valid_until = 0.0
        self._namespace_missing = False

    def term(self) -> str | None:
        # Checked right before each write, so that a process that was paused notices the expiry before it acts.
        return self._term if self._clock.monotonic() < self._valid_until else None

    @property
    def holder(self) -> str:
        """The last observed holder of the lease; empty if there is none."""
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    @property
    def holder_annotations(self) -> Mapping[str, str]:
        """The annotations of the lease; empty if there is no holder."""
        return self._lease.annotations if self._lease is not None and self.holder else {}

    async def run(self) -> None:
        """Compete for the lease and renew it while held; on cancellation release it at once."""
        retry_seconds = self._times.retry_period.total_seconds()
        try:
            while True:
                await self._once()
                self._lose_if_expired()
                await self._clock.sleep(retry_seconds)
        finally:
            await self._release()

    async def _once(self) -> None:
        # Bounded, so that a hanging call cannot take the holder past its deadline unnoticed.
        limit = self._times.renew_deadline.total_seconds() / 2
        try:
            async with asyncio.timeout(limit):
                await self._acquire_or_renew()
        except TimeoutError:
            log.warning("lease call timed out", lease=self._name, seconds=limit)
        except KubeError as error:
            log.warning("lease call failed", lease=self._name, error=str(error))

    async def _acquire_or_renew(self) -> None:
        if self._term is not None and self._lease is not None:
            try:
                await self._renew(self._lease)
            except (Conflict, NotFound) as error:
                # Deleted, edited or taken by another process: the lease's current state decides.
                log.info("lease was changed by another client", lease=self._name, error=str(error))
            else:
                return
        lease = await self._read()
        if lease is not None and lease.spec.holder_identity == self._identity:
            # The lease names this process, but there is no term: the reply to the acquiring write was lost, or the term expired
            # and no other process followed. Only a write that succeeds now starts a term: another may be about to take the lease.
            await (self._acquire(lease) if self._term is None else self._renew(lease))
        elif self._term is not None:
            # Do not compete again in this round: a process that exits because of this must not take the lease first.
            holder = lease.spec.holder_identity or "no process" if lease is not None else ""
            self._lose(f"the lease is held by {holder}" if holder else "the lease was deleted")
        elif lease is None or (
            self._observation is not None and self._observation.expired(lease, self._clock.monotonic())
        ):
            await self._acquire(lease)

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name, urgent=True)
        except NotFound:
            self._lease = self._observation = None
            return None
        self._observe(lease)
        return lease

    def _observe(self, lease: Lease) -> None:
        self._lease = lease
        self._observation = observe_lease(lease, self._observation, self._clock.monotonic())

    async def _acquire(self, lease: Lease | None) -> None:
        sent_at = self._clock.monotonic()
        now = micro_time(self._clock.now())
        spec = {
            "holderIdentity": self._identity,
            # Rounded up to whole seconds: another process must not start before this one must have stopped.
            "leaseDurationSeconds": math.ceil(self._times.duration.total_seconds()),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": (lease.spec.lease_transitions or 0) + 1 if lease else 0,
        }
        self._acquiring = True
        try:
            if lease is None:
                own = {key: value for key, value in self.annotations.items() if value is not None}
                body = {
                    "metadata": {"name": self._name, "namespace": self._namespace, "annotations": own},
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
                self._report_missing_namespace()
            return  # another process was faster; the next round sees which
        if taken.spec.holder_identity == self._identity:
            self._win(taken, sent_at)

    def _report_missing_namespace(self) -> None:
        """Log it once, although every attempt runs into it."""
        if not self._namespace_missing:
            log.error(
                "cannot elect a leader: the namespace of the lease does not exist", lease=self._name,
                namespace=self._namespace,
                remedy=f"run kubectl create namespace {self._namespace}, or set operator.namespace to one that exists",
            )  # fmt: skip
        self._namespace_missing = True

    async def _renew(self, lease: Lease) -> None:
        sent_at = self._clock.monotonic()
        renewed = await self._client.patch(
            LEASES, self._namespace, self._name, {"spec": {"renewTime": micro_time(self._clock.now())}},
            uid=lease.metadata.uid, resource_version=lease.metadata.resource_version, urgent=True,
        )  # fmt: skip
        self._observe(renewed)
        expired = self.term() is None
        self._extend(sent_at)
        if expired and self.term() is not None:
            log.warning("lease renewed late", lease=self._name, identity=self._identity)
            self._on_resumed()

    def _win(self, lease: Lease, sent_at: float) -> None:
        self._acquiring = self._namespace_missing = False
        self._observe(lease)
        self._term = lease.metadata.resource_version
        self._extend(sent_at)
        log.info("leading", lease=self._name, identity=self._identity, term=self._term)
        self._on_elected(self._term)

    def _extend(self, sent_at: float) -> None:
        # Counted from when the request was sent: another process may count from any moment after that.
        self._valid_until = sent_at + self._times.renew_deadline.total_seconds()

    def _lose_if_expired(self) -> None:
        if self._term is not None and self.term() is None:
            self._lose("the lease could not be renewed in time")

    def _lose(self, why: str) -> None:
        if self._term is None:
            return
        self._term, self._valid_until = None, 0.0
        log.error("leadership lost", lease=self._name, identity=self._identity, why=why)
        self._on_lost(why)

    async def _release(self) -> None:
        """Release the lease, so that the next leader starts at once instead of after a whole lease duration."""
        if self._term is None and not self._acquiring:
            return
        held = self._lease if self._term is not None else None
        self._term = None
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                if held is not None:
                    try:
                        await self._hand_over(held)
                    except Conflict as error:
                        log.info("lease was changed by another client", lease=self._name, error=str(error))
                    else:
                        return
                # An interrupted acquisition or renewal may have reached the server, or a person may have edited the lease.
                there = await self._read()
                if there is not None and there.spec.holder_identity == self._identity:
                    await self._hand_over(there)
        except (KubeError, TimeoutError) as error:
            why = str(error) or f"no answer within {RELEASE_SECONDS:g} s"
            log.warning("lease not released; it expires by itself", lease=self._name, error=why)

    async def _hand_over(self, lease: Lease) -> None:
        body = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}}
        await self._client.patch(
            LEASES, self._namespace, self._name, body,
            uid=lease.metadata.uid, resource_version=lease.metadata.resource_version, urgent=True,
        )  # fmt: skip
        log.info("lease released", lease=self._name)
