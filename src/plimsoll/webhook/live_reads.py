"""Live reads for admission reviews that the view cannot answer, bounded in time and shared between reviews of one owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import structlog

from plimsoll.controllers.placement.admission.classify import LiveReadKind, LiveReadNeeded, PodClassifier
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError, NotFound
from plimsoll.kube.client.rate_limit import RateLimit
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.meta import LabelSelector
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Resource
from plimsoll.runtime.clock import Clock

W = TypeVar("W", Deployment, StatefulSet)

log = structlog.get_logger()


# The budget of live reads, apart from all other calls and never in debt: reviews of invented owners cost one read each, and must
# not starve the controllers. Beyond it, a review is answered from the view.
READS_PER_SECOND = 50.0
READ_BURST = 200


class ReadResult(Enum):
    FRESH = "fresh"
    EARLIER = "earlier"  # the read started before the review arrived
    FAILED = "failed"


class _Flight:
    def __init__(self, task: asyncio.Task[bool], started: float) -> None:
        self.task = task
        self.started = started


class LiveReads:
    def __init__(
        self,
        client: Client,
        admission: PodClassifier,
        clock: Clock,
        *,
        seconds: float,
        counted: Callable[[str, str], None] = lambda _what, _result: None,
    ) -> None:
        self._client = client
        self._admission = admission
        self._clock = clock
        self._seconds = seconds  # time limit of one read
        self._counted = counted
        self._budget = RateLimit(READS_PER_SECOND, READ_BURST, clock)
        self._flights: dict[tuple[LiveReadKind, str], _Flight] = {}

    async def look(self, look: LiveReadNeeded, *, since: float, deadline: float) -> ReadResult:
        """Read the requested objects, or wait for a running read of the same objects.

        A read that started before the review arrived (`since`) may have missed its cause: the caller then decides again, and
        asks for another read if that is not enough.
        """
        key = (look.what, look.owner.uid)
        flight = self._flights.get(key)
        if flight is None:
            if not self._budget.take_now():
                self._counted(look.what.value, "over-budget")
                return ReadResult.FAILED
            task = asyncio.create_task(self._read(look), name=f"read {look.what.value} of {look.owner.name}")
            flight = self._flights[key] = _Flight(task, self._clock.monotonic())
            task.add_done_callback(lambda _: self._flights.pop(key, None))
        done, _ = await asyncio.wait({flight.task}, timeout=max(0.0, deadline - self._clock.monotonic()))
        if not done or flight.task.cancelled() or not flight.task.result():
            return ReadResult.FAILED
        return ReadResult.FRESH if flight.started >= since else ReadResult.EARLIER

    async def _read(self, look: LiveReadNeeded) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                await (self._read_owners(look) if look.what is LiveReadKind.OWNERS else self._read_pods(look))
        except (KubeError, TimeoutError) as error:
            log.warning(
                "live read for an admission review failed",
                what=look.what.value,
                owner=look.owner.name,
                error=str(error),
            )
            self._counted(look.what.value, "failed")
            return False
        self._counted(look.what.value, "read")
        return True

    async def _read_owners(self, look: LiveReadNeeded) -> None:
        if look.owner.kind == "StatefulSet":
            await self._read_workload(STATEFULSETS, look.namespace, look.owner.name)
            return
        if look.known is None:
            found = await self._read_replica_set(look)
            if found is not None:
                await self._read_deployment_of(found, look.namespace)
            return
        await asyncio.gather(self._read_replica_set(look), self._read_deployment_of(look.known, look.namespace))

    async def _read_replica_set(self, look: LiveReadNeeded) -> ReplicaSet | None:
        try:
            found = await self._client.get(REPLICASETS, look.namespace, look.owner.name, urgent=True)
        except NotFound:
            return None
        if found.uid != look.owner.uid:
            return None
        self._admission.record_owner(found, self._clock.monotonic())
        return found

    async def _read_deployment_of(self, replica_set: ReplicaSet, namespace: str) -> None:
        above = replica_set.metadata.controller
        if above is not None and above.kind == "Deployment":
            await self._read_workload(DEPLOYMENTS, namespace, above.name)

    async def _read_workload(self, kind: Resource[W], namespace: str, name: str) -> None:
        try:
            found = await self._client.get(kind, namespace, name, urgent=True)
        except NotFound:
            return
        self._admission.record_owner(found, self._clock.monotonic())

    async def _read_pods(self, look: LiveReadNeeded) -> None:
        if look.known is None:
            return
        selector = as_text(look.known.spec.selector)
        listing = await self._client.list(PODS, look.namespace, label_selector=selector)
        self._admission.record_pods(look.owner.uid, listing.items, listing.resource_version, self._clock.monotonic())


def as_text(selector: LabelSelector | None) -> str:
    """A selector in the syntax of the API server's query parameters."""
    if selector is None:
        return ""
    words = {"In": "in", "NotIn": "notin"}
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        match requirement.operator:
            case "Exists":
                parts.append(requirement.key)
            case "DoesNotExist":
                parts.append(f"!{requirement.key}")
            case operator:
                parts.append(f"{requirement.key} {words[operator]} ({','.join(requirement.values)})")
    return ",".join(parts)
