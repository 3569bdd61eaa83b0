"""The one door: every write that a controller wants passes here, and nowhere else.

What holds for all of them is enforced once: read-only means read-only; only the current tenure writes; nothing is destroyed
on a view that is not live; a pod leaves within every budget, named by UID, after it was read live once more; and whatever was
done, refused or would have been done is told in an event, a metric and the audit trail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from plimsoll.disruption.ledger import MEMORY_NOT_READ, Disruption, DisruptionLedger, never_ran
from plimsoll.disruption.store import AnotherTenure, DisruptionMemory
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Ambiguous, Conflict, KubeError, NotFound, TooManyRequests
from plimsoll.kube.events import EventRecorder, NewEvent
from plimsoll.kube.leader_election import Leadership
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import Key, metadata_of
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.audit import AuditRecord, AuditTrail
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import (
    Action,
    Blocker,
    Create,
    CreateMachine,
    Decision,
    Delete,
    DeleteMachine,
    Event,
    Evict,
    Patch,
    Ref,
    Transaction,
)
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.machine_requests import ask_provider
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import Outcome, Result, Status
from plimsoll.runtime.transaction import Answer, Write, converse, new_token

log = structlog.get_logger()

# How many of a decision's independent writes are under way together: few enough to leave the client's connections to others. More
# than it takes to hide the latency, since what arrives together costs less: etcd writes it at once, and watchers look once
# (1,000 pods: 32 together took all processes of a control plane 9 s of CPU, 128 together 7 s).
CONCURRENT_WRITES = 128

NOT_LEADING, VIEW_STALE, ANOTHER_TENURE = "NotLeading", "ViewStale", "AnotherTenure"
# Refusals that are over within a second or two by themselves, and that no change of an object ends.
PASSING = frozenset({NOT_LEADING, VIEW_STALE, ANOTHER_TENURE, MEMORY_NOT_READ})


class _Stop(Exception):
    """The action goes no further; not an error: the door did its work."""

    def __init__(self, status: Status, detail: str, blocker: Blocker | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.blocker = blocker


def _refusal(code: str, message: str) -> _Stop:
    return _Stop("refused", message, Blocker(code, message))


class Actuator:
    """Carries out decisions. Built once, shared by all controllers."""

    def __init__(
        self,
        client: Client,
        view: View,
        clock: Clock,
        *,
        identity: str,
        leadership: Leadership,
        ledger: DisruptionLedger,
        memory: DisruptionMemory,
        expectations: Expectations,
        recorder: EventRecorder,
        metrics: Metrics,
        audit: AuditTrail,
        read_only: bool,
        providers: Mapping[str, Provider] | None = None,
        token: Callable[[], str] = new_token,
    ) -> None:
        self._client = client
        self._view = view
        self._clock = clock
        self._identity = identity
        self._leadership = leadership
        self._ledger = ledger
        self._memory = memory
        self._own_writes = expectations
        self._recorder = recorder
        self._metrics = metrics
        self._audit = audit
        self._read_only = read_only
        self._providers = dict(providers or {})
        self._token = token  # of each conversation
        # Evictions are judged and sent one at a time: two judged together would each see the other's pod standing.
        self._evicting = asyncio.Lock()
        self._concurrency = asyncio.Semaphore(CONCURRENT_WRITES)

    @property
    def read_only(self) -> bool:
        return self._read_only

    def tell(self, event: Event) -> None:
        """Record an event, unless this process only watches."""
        if self._read_only or self._leadership.epoch() is None:
            return
        self._metrics.count(event.counts)
        about = event.regarding
        self._recorder.record(
            NewEvent(
                api_version=about.resource.api_version,
                kind=about.resource.kind,
                namespace=about.namespace,
                name=about.name,
                uid=about.uid,
                reason=event.reason,
                note=event.message,
                action=event.action or event.reason,
                type=event.type,
            )
        )

    async def act(self, controller: str, key: Key, decision: Decision, epoch: str) -> Outcome:
        """Carry out the actions of a decision that was made in the tenure `epoch`."""
        if decision.in_order:
            results = []
            for action in decision.actions:
                results.append(await self._one(controller, key, action, epoch))
                if results[-1].status not in ("done", "would"):
                    break  # what follows was decided on the assumption that this one succeeds
            return Outcome(tuple(results))
        return Outcome(
            tuple(await asyncio.gather(*(self._limited(controller, key, a, epoch) for a in decision.actions)))
        )

    async def _limited(self, controller: str, key: Key, action: Action, epoch: str) -> Result:
        if isinstance(
            action, Transaction
        ):  # its writes are limited one by one; holding a place meanwhile could lock all
            return await self._one(controller, key, action, epoch)
        async with self._concurrency:
            return await self._one(controller, key, action, epoch)

    async def _one(self, controller: str, key: Key, action: Action, epoch: str) -> Result:
        try:
            result = await self._attempt(controller, key, action, epoch)
        except asyncio.CancelledError:
            self._tell(
                controller, key, epoch, Result(action, "unknown", "the process stopped while this was under way")
            )
            raise
        self._tell(controller, key, epoch, result)
        return result

    def _tell(self, controller: str, key: Key, epoch: str, result: Result) -> None:
        """In the metrics, the audit trail, the log and, where it was done, an event."""
        action = result.action
        kind = type(action).__name__
        self._metrics.actions.labels(controller, kind, result.status).inc()
        target = _target(action)
        self._audit.write(
            AuditRecord(
                time=self._clock.now(), operator=self._identity, epoch=epoch, controller=controller, key=str(key),
                action=kind, target=str(target.key), uid=target.uid, reason=action.why.code, why=action.why.message,
                result=result.status, detail=result.detail, patch=_body(action),
            )
        )  # fmt: skip
        level = log.info if result.status in ("done", "would", "gone") else log.warning
        level(
            f"{kind.lower()} {result.status}", controller=controller, key=str(key), target=str(target.key),
            why=str(action.why), **({"detail": result.detail} if result.detail else {}),
        )  # fmt: skip
        if result.status == "done" and action.event is not None:
            self.tell(action.event)

    async def _attempt(self, controller: str, key: Key, action: Action, epoch: str) -> Result:
        if self._read_only:
            return Result(action, "would", "read-only: nothing was written")
        try:
            self._check(action, epoch)
            match action:
                case Patch():
                    return await self._patch(key, action)
                case Create():
                    return await self._create(key, action)
                case Delete():
                    return await self._delete(key, action, epoch)
                case Evict():
                    return await self._evict(key, action, epoch)
                case Transaction():
                    return await self._converse(controller, key, action, epoch)
                case CreateMachine() | DeleteMachine():
                    return await ask_provider(self._providers, action)
        except _Stop as stop:
            return Result(action, stop.status, str(stop), stop.blocker)
        except NotFound:
            return Result(action, "gone", "the object is no longer there")
        except Conflict as error:
            return Result(action, "conflict", str(error))
        except TooManyRequests as error:
            if error.disruption_budget:
                return Result(action, "refused", str(error), Blocker("NotEnoughPdb", str(error)))
            return Result(action, "failed", str(error))
        except Ambiguous as error:
            return await self._find_out(key, action, error)
        except KubeError as error:
            return Result(action, "failed", str(error))

    def _check(self, action: Action, epoch: str) -> None:
        """What every write needs at the very moment it is sent."""
        if self._leadership.epoch() != epoch:
            raise _refusal(NOT_LEADING, "the tenure in which this was decided is over")
        if isinstance(action, Delete | Evict | DeleteMachine):
            if self._view.stale:
                raise _refusal(VIEW_STALE, f"the view of {', '.join(self._view.stale)} is not live")
            if not _target(action).uid:
                raise _refusal("NoUid", "a destructive act must name a UID")
        if isinstance(action, DeleteMachine) and not action.machine_id:
            raise _refusal("NoMachineId", "a machine is given back by the provider's own id")
        if isinstance(action, Delete) and action.target.resource.kind == "Pod":
            raise _refusal("EvictInstead", "pods leave through the Eviction API, never by deletion")

    async def _patch(self, key: Key, action: Patch) -> Result:
        target = action.target
        resource = metadata_of(target.resource) if action.brief else target.resource
        changed = await self._client.patch(
            resource, target.namespace, target.name, action.body, form=action.form, uid=target.uid,
            resource_version=target.resource_version if action.if_unchanged else "", subresource=action.subresource,
        )  # fmt: skip
        self._own_writes.wrote(key, target, changed.metadata.resource_version)
        return Result(action, "done", written=None if action.brief else changed)

    async def _create(self, key: Key, action: Create) -> Result:
        body = {
            "apiVersion": action.resource.api_version,
            "kind": action.resource.kind,
            **action.body,
            "metadata": {**action.body.get("metadata", {}), "name": action.name, "namespace": action.namespace},
        }
        try:
            made = await self._client.create(action.resource, action.namespace, body)
        except AlreadyExists:
            # Ours from a reply that was lost, or someone else's: the next decision sees it in the view and judges.
            there = await self._client.get(action.resource, action.namespace, action.name)
            self._own_writes.wrote(key, Ref.to(action.resource, there), there.metadata.resource_version)
            return Result(action, "conflict", "an object of this name is already there")
        self._own_writes.wrote(key, Ref.to(action.resource, made), made.metadata.resource_version)
        return Result(action, "done", written=made)

    async def _delete(self, key: Key, action: Delete, epoch: str) -> Result:
        target = action.target
        live = await self._read_live(key, target)
        self._check(action, epoch)
        await self._client.delete(
            target.resource, target.namespace, target.name,
            uid=target.uid, resource_version=live.metadata.resource_version,
        )  # fmt: skip
        self._own_writes.removed(key, target)
        return Result(action, "done")

    async def _evict(self, key: Key, action: Evict, epoch: str) -> Result:
        async with self._evicting:
            pod = await self._read_live(key, action.pod)
            self._refuse(pod, action)
            self._check(action, epoch)
            disruption = Disruption(action.workload, f"{pod.namespace}/{pod.name}", pod.uid, self._clock.monotonic())
            if not never_ran(pod):
                await self._write_down(key, disruption)
                # Writing it down took time, in which another pod may have gone, or the tenure have ended.
                self._refuse(pod, action)
                self._ledger.enter(disruption)
                self._check(action, epoch)
            try:
                await self._client.evict(pod.namespace, pod.name, uid=pod.uid)
            except Ambiguous:
                self._ledger.happened(disruption, self._clock.monotonic())
                raise  # it may have happened: it counts
            except KubeError:
                self._ledger.withdraw(
                    disruption
                )  # it stays in memory: counted once too often is safe, once too few is not
                raise
            self._ledger.happened(disruption, self._clock.monotonic())
            self._own_writes.removed(key, action.pod)
            return Result(action, "done")

    def _refuse(self, pod: Pod, action: Evict) -> None:
        blocker = self._ledger.refusal(
            pod, self._view, self._clock.monotonic(),
            workload=action.workload, may_be_last=action.may_be_last, within=action.within,
        )  # fmt: skip
        if blocker is not None:
            raise _Stop("refused", blocker.message, blocker)

    async def _write_down(self, key: Key, disruption: Disruption) -> None:
        try:
            written = await self._memory.remember(disruption)
        except AnotherTenure as error:
            self._ledger.learn(error.disruptions)
            raise _refusal(ANOTHER_TENURE, str(error)) from error
        except AlreadyExists as error:  # made by another process a moment ago
            raise _Stop("conflict", str(error)) from error
        except NotFound as error:  # not the pod: the namespace that the memory is kept in
            raise _Stop("failed", f"it cannot be written down: {error}") from error
        # Decisions read it too, through the view: the next one waits until it is there.
        self._own_writes.wrote(key, Ref.to(self._memory.resource, written), written.metadata.resource_version)

    async def _converse(self, controller: str, key: Key, action: Transaction, epoch: str) -> Result:
        """Hold a conversation; each of its writes passes the checks of its own, at the moment at which it is sent."""

        async def write(writes: tuple[Write, ...]) -> tuple[Answer, ...]:
            results = await asyncio.gather(*(self._limited(controller, key, one, epoch) for one in writes))
            return tuple(_answer(result) for result in results)

        end = await converse(action, self._client, write, self._clock, self._token)
        for event in end.events:
            self.tell(event)
        return Result(action, end.status, end.detail, end.blocker)

    async def _read_live(self, key: Key, target: Ref) -> Any:
        """The object as it is now, if it still is as it was when it was decided about."""
        try:
            live = await self._client.get(target.resource, target.namespace, target.name)
        except NotFound:
            self._own_writes.removed(key, target)
            raise
        if live.metadata.uid != target.uid or live.terminating:
            self._own_writes.removed(key, target)
            raise _Stop("gone", "the object has left or is leaving")
        if target.resource_version and live.metadata.resource_version != target.resource_version:
            self._own_writes.wrote(key, target, live.metadata.resource_version)
            raise _Stop("conflict", "the object was changed since the view saw it")
        return live

    async def _find_out(self, key: Key, action: Action, error: Ambiguous) -> Result:
        """A reply was lost. Read what is there now, and let the view catch up with that before the key is decided again."""
        target = _target(action)
        try:
            live = await self._client.get(target.resource, target.namespace, target.name)
        except NotFound:
            if isinstance(action, Delete | Evict):
                self._own_writes.removed(key, target)
                return Result(action, "done", "the reply was lost; the object is gone")
            return Result(action, "unknown", f"the reply was lost and there is no such object: {error}")
        except KubeError as second:
            return Result(action, "unknown", f"the reply was lost and the object could not be read: {second}")
        if isinstance(action, Delete | Evict) and (live.metadata.uid != target.uid or live.terminating):
            self._own_writes.removed(key, target)
            return Result(action, "done", "the reply was lost; the object is leaving")
        self._own_writes.wrote(key, target, live.metadata.resource_version)
        return Result(action, "unknown", f"the reply was lost: {error}")


def _answer(result: Result) -> Answer:
    code = result.blocker.code if result.blocker else ""
    return Answer(result.status, result.written, result.detail, result.machine, code)


def _target(action: Action) -> Ref:
    match action:
        case Create():
            return Ref(action.resource, action.namespace, action.name, "")
        case Evict():
            return action.pod
        case _:
            return action.target


def _body(action: Action) -> Mapping[str, Any] | Any:
    return action.body if isinstance(action, Patch | Create) else None
