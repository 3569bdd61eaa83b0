"""The actuator: the only path by which a controller's decision reaches the API server or a provider.

Reconcilers call `Actuator.act`. It enforces what holds for every write: in read-only mode it writes nothing; it writes only
in the current leadership term; it destroys nothing while the view is not live; it reads a pod live and checks every budget
before it evicts that pod by UID. It reports each action, done or not, in an event, a metric and the audit trail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from plimsoll.disruption.ledger import HISTORY_NOT_READ, Disruption, DisruptionLedger
from plimsoll.disruption.pdb import ignores_budgets
from plimsoll.disruption.store import AnotherLeader, DisruptionStore
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Ambiguous, Conflict, KubeError, NotFound, TooManyRequests
from plimsoll.kube.events import EventRecorder, NewEvent
from plimsoll.kube.leader_election import Leadership
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, Key, Resource, metadata_of
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
from plimsoll.runtime.outcome import ActionResult, Outcome, Status
from plimsoll.runtime.transaction import Write, WriteResult, new_token, run_transaction

log = structlog.get_logger()

# How many independent writes of a decision run concurrently: few enough to leave connections of the client to others, and more
# than hiding the latency needs, because concurrent writes cost the server less: etcd commits them in one batch and watchers wake
# once (1,000 pods: all processes of a control plane used 9 s of CPU with 32 at a time, 7 s with 128).
CONCURRENT_WRITES = 128

NOT_LEADING, VIEW_STALE, ANOTHER_LEADER = "NotLeading", "ViewStale", "AnotherLeader"
UNREADABLE_OBJECTS, AUDIT_UNAVAILABLE = "UnreadableObjects", "AuditUnavailable"
# Blockers that pass by themselves within a second or two. No change of an object announces their end, so the key is retried soon.
TRANSIENT_BLOCKERS = frozenset({NOT_LEADING, VIEW_STALE, ANOTHER_LEADER, HISTORY_NOT_READ})


class _Stop(Exception):
    """Ends an action early. This is a normal result, not an error."""

    def __init__(self, status: Status, detail: str, blocker: Blocker | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.blocker = blocker


def _refusal(code: str, message: str) -> _Stop:
    return _Stop("refused", message, Blocker(code, message))


class Actuator:
    """Carries out decisions. The operator builds one, and all controllers share it."""

    def __init__(
        self,
        client: Client,
        view: View,
        clock: Clock,
        *,
        identity: str,
        leadership: Leadership,
        ledger: DisruptionLedger,
        memory: DisruptionStore,
        expectations: Expectations,
        recorder: EventRecorder,
        metrics: Metrics,
        audit: AuditTrail,
        read_only: bool,
        needs: Mapping[str, Sequence[Resource[Any]]] | None = None,
        providers: Mapping[str, Provider] | None = None,
        token: Callable[[], str] = new_token,
    ) -> None:
        """needs: by controller, the kinds whose view must be live for a destructive action; of others, every kind."""
        self._needs = dict(needs or {})
        self._client = client
        self._view = view
        self._clock = clock
        self._identity = identity
        self._leadership = leadership
        self._ledger = ledger
        self._memory = memory
        self._expectations = expectations
        self._recorder = recorder
        self._metrics = metrics
        self._audit = audit
        self._read_only = read_only
        self._providers = dict(providers or {})
        self._token = token  # returns a token that is unique to each transaction
        # Evictions are checked and sent one at a time: two concurrent checks would each count the other's pod as running.
        self._evicting = asyncio.Lock()
        self._concurrency = asyncio.Semaphore(CONCURRENT_WRITES)

    @property
    def read_only(self) -> bool:
        return self._read_only

    def record_event(self, event: Event) -> None:
        """Record an event, unless the process is read-only or does not lead."""
        if self._read_only or self._leadership.term() is None:
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

    async def act(self, controller: str, key: Key, decision: Decision, term: str) -> Outcome:
        """Carry out the actions of a decision that was made in the leadership term `term`."""
        if decision.in_order:
            results = []
            for action in decision.actions:
                results.append(await self._one(controller, key, action, term))
                if results[-1].status not in ("done", "would"):
                    break  # the actions that follow assume that this one succeeded
            return Outcome(tuple(results))
        return Outcome(
            tuple(await asyncio.gather(*(self._limited(controller, key, a, term) for a in decision.actions)))
        )

    async def _limited(self, controller: str, key: Key, action: Action, term: str) -> ActionResult:
        if isinstance(
            action, Transaction
        ):  # each of its writes takes a slot; holding one for the whole transaction could deadlock
            return await self._one(controller, key, action, term)
        async with self._concurrency:
            return await self._one(controller, key, action, term)

    async def _one(self, controller: str, key: Key, action: Action, term: str) -> ActionResult:
        try:
            result = await self._attempt(controller, key, action, term)
        except asyncio.CancelledError:
            self._report(
                controller, key, term, ActionResult(action, "unknown", "the process stopped while this was under way")
            )
            raise
        self._report(controller, key, term, result)
        return result

    def _report(self, controller: str, key: Key, term: str, result: ActionResult) -> None:
        """Report a result to the metrics, the audit trail and the log; record the action's event if it was done."""
        action = result.action
        kind = type(action).__name__
        self._metrics.actions.labels(controller, kind, result.status).inc()
        target = _target(action)
        self._audit.write(
            AuditRecord(
                time=self._clock.now(), operator=self._identity, term=term, controller=controller, key=str(key),
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
            self.record_event(action.event)

    async def _attempt(self, controller: str, key: Key, action: Action, term: str) -> ActionResult:
        if self._read_only:
            return ActionResult(action, "would", "read-only: nothing was written")
        try:
            self._check(controller, action, term)
            match action:
                case Patch():
                    return await self._patch(key, action)
                case Create():
                    return await self._create(key, action)
                case Delete():
                    return await self._delete(controller, key, action, term)
                case Evict():
                    return await self._evict(controller, key, action, term)
                case Transaction():
                    return await self._converse(controller, key, action, term)
                case CreateMachine() | DeleteMachine():
                    return await ask_provider(self._providers, action)
        except _Stop as stop:
            return ActionResult(action, stop.status, str(stop), stop.blocker)
        except NotFound:
            return ActionResult(action, "gone", "the object is no longer there")
        except Conflict as error:
            return ActionResult(action, "conflict", str(error))
        except TooManyRequests as error:
            if error.disruption_budget:
                return ActionResult(action, "refused", str(error), Blocker("NotEnoughPdb", str(error)))
            return ActionResult(action, "failed", str(error))
        except Ambiguous as error:
            return await self._find_out(key, action, error)
        except KubeError as error:
            return ActionResult(action, "failed", str(error))

    def _check(self, controller: str, action: Action, term: str) -> None:
        """Check what every write needs at the moment it is sent; raises `_Stop`."""
        if self._leadership.term() != term:
            raise _refusal(NOT_LEADING, "the leadership term in which this was decided has ended")
        if not self._audit.accepting:
            raise _refusal(AUDIT_UNAVAILABLE, "the audit trail cannot be written, and audit.onFailure is stop")
        if isinstance(action, Delete | Evict | DeleteMachine):
            needs = self._needs.get(controller)
            if stale := self._view.stale if needs is None else self._view.stale_among(needs):
                raise _refusal(VIEW_STALE, f"the view of {', '.join(stale)} is not live")
            self._check_readable(action)
            if not _target(action).uid:
                raise _refusal("NoUid", "a destructive action must carry the UID of its target")
        if isinstance(action, DeleteMachine) and not action.machine_id:
            raise _refusal("NoMachineId", "deleting a machine requires the provider's id of it")
        if isinstance(action, Delete) and action.target.resource.kind == "Pod":
            raise _refusal("EvictInstead", "pods are evicted through the Eviction API, never deleted")

    def _check_readable(self, action: Delete | Evict | DeleteMachine) -> None:
        """Refuse to destroy anything while an object that may depend on it cannot even be named."""
        for resource in (PODS, action.target.resource) if isinstance(action, Delete | DeleteMachine) else (PODS,):
            if resource in self._view and self._view[resource].unreadable:
                raise _refusal(
                    UNREADABLE_OBJECTS, f"one of the {resource.plural} has no readable metadata; correct or delete it"
                )

    async def _patch(self, key: Key, action: Patch) -> ActionResult:
        target = action.target
        resource = metadata_of(target.resource) if action.brief else target.resource
        changed = await self._client.patch(
            resource, target.namespace, target.name, action.body, form=action.form, uid=target.uid,
            resource_version=target.resource_version if action.if_unchanged else "", subresource=action.subresource,
        )  # fmt: skip
        self._expectations.wrote(key, target, changed.metadata.resource_version)
        return ActionResult(action, "done", written=None if action.brief else changed)

    async def _create(self, key: Key, action: Create) -> ActionResult:
        body = {
            "apiVersion": action.resource.api_version,
            "kind": action.resource.kind,
            **action.body,
            "metadata": {**action.body.get("metadata", {}), "name": action.name, "namespace": action.namespace},
        }
        try:
            made = await self._client.create(action.resource, action.namespace, body)
        except AlreadyExists:
            # Either our own create whose reply was lost, or another client's object: the next decision sees it in the view.
            there = await self._client.get(action.resource, action.namespace, action.name)
            self._expectations.wrote(key, Ref.to(action.resource, there), there.metadata.resource_version)
            return ActionResult(action, "conflict", "an object of this name is already there")
        self._expectations.wrote(key, Ref.to(action.resource, made), made.metadata.resource_version)
        return ActionResult(action, "done", written=made)

    async def _delete(self, controller: str, key: Key, action: Delete, term: str) -> ActionResult:
        target = action.target
        live = await self._read_live(key, target)
        self._check(controller, action, term)
        await self._client.delete(
            target.resource, target.namespace, target.name,
            uid=target.uid, resource_version=live.metadata.resource_version,
        )  # fmt: skip
        self._expectations.removed(key, target)
        return ActionResult(action, "done")

    async def _evict(self, controller: str, key: Key, action: Evict, term: str) -> ActionResult:
        async with self._evicting:
            pod = await self._read_live(key, action.pod)
            self._refuse(pod, action)
            self._check(controller, action, term)
            disruption = Disruption(action.workload, f"{pod.namespace}/{pod.name}", pod.uid, self._clock.monotonic())
            if not ignores_budgets(pod):
                await self._write_down(key, disruption)
                # Recording it took time, in which another pod may have gone or the leadership term may have ended.
                self._refuse(pod, action)
                self._ledger.enter(disruption)
                self._check(controller, action, term)
            try:
                await self._client.evict(pod.namespace, pod.name, uid=pod.uid)
            except Ambiguous:
                self._ledger.happened(disruption, self._clock.monotonic())
                raise  # the eviction may have happened, so it counts
            except KubeError:
                # The stored record stays: counting one disruption too many is safe, one too few is not.
                self._ledger.withdraw(disruption)
                raise
            self._ledger.happened(disruption, self._clock.monotonic())
            self._expectations.removed(key, action.pod)
            return ActionResult(action, "done")

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
        except AnotherLeader as error:
            self._ledger.learn(error.disruptions)
            raise _refusal(ANOTHER_LEADER, str(error)) from error
        except AlreadyExists as error:  # made by another process a moment ago
            raise _Stop("conflict", str(error)) from error
        except NotFound as error:  # the operator's namespace does not exist
            raise _Stop("failed", f"the disruption cannot be recorded: {error}") from error
        # Decisions read the record through the view, so the next one waits until the view shows it.
        self._expectations.wrote(key, Ref.to(self._memory.resource, written), written.metadata.resource_version)

    async def _converse(self, controller: str, key: Key, action: Transaction, term: str) -> ActionResult:
        """Run a transaction. Each of its writes passes all checks at the moment it is sent."""

        async def write(writes: tuple[Write, ...]) -> tuple[WriteResult, ...]:
            results = await asyncio.gather(*(self._limited(controller, key, one, term) for one in writes))
            return tuple(_answer(result) for result in results)

        end = await run_transaction(action, self._client, write, self._clock, self._token)
        for event in end.events:
            self.record_event(event)
        return ActionResult(action, end.status, end.detail, end.blocker)

    async def _read_live(self, key: Key, target: Ref) -> Any:
        """Read the target live; raises `_Stop` if it changed since the decision saw it."""
        try:
            live = await self._client.get(target.resource, target.namespace, target.name)
        except NotFound:
            self._expectations.removed(key, target)
            raise
        if live.metadata.uid != target.uid or live.terminating:
            self._expectations.removed(key, target)
            raise _Stop("gone", "the object is gone or terminating")
        if target.resource_version and live.metadata.resource_version != target.resource_version:
            self._expectations.wrote(key, target, live.metadata.resource_version)
            raise _Stop("conflict", "the object changed after the view saw it")
        return live

    async def _find_out(self, key: Key, action: Action, error: Ambiguous) -> ActionResult:
        """Read the target after a lost reply, and expect the view to catch up with it before the key is decided again."""
        target = _target(action)
        try:
            live = await self._client.get(target.resource, target.namespace, target.name)
        except NotFound:
            if isinstance(action, Delete | Evict):
                self._expectations.removed(key, target)
                return ActionResult(action, "done", "the reply was lost; the object is gone")
            return ActionResult(action, "unknown", f"the reply was lost and the object does not exist: {error}")
        except KubeError as second:
            return ActionResult(action, "unknown", f"the reply was lost and the object could not be read: {second}")
        if isinstance(action, Delete | Evict) and (live.metadata.uid != target.uid or live.terminating):
            self._expectations.removed(key, target)
            return ActionResult(action, "done", "the reply was lost; the object is terminating")
        self._expectations.wrote(key, target, live.metadata.resource_version)
        return ActionResult(action, "unknown", f"the reply was lost: {error}")


def _answer(result: ActionResult) -> WriteResult:
    code = result.blocker.code if result.blocker else ""
    return WriteResult(result.status, result.written, result.detail, result.machine, code)


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
