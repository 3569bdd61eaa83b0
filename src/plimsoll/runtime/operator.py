"""The operator: builds informers, election, actuator and reconcilers, and runs them until the process stops.

`plimsoll run`, `simulate` and `dashboard` create one `Operator` each and call `run`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Protocol

import structlog

from plimsoll.config import Config
from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.disruption.node_loss import NodeLossRecorder
from plimsoll.disruption.store import DisruptionStore
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.events import EventRecorder
from plimsoll.kube.leader_election import AlwaysLeading, LeaderElection, LeaseTimes
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS, Key, Resource
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.actuator import Actuator
from plimsoll.runtime.audit import AuditRecord, AuditTrail
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.decision import Controller, Decision, DisruptionLimits
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.informers import Informers
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import Outcome
from plimsoll.runtime.reconciler import Reconciler
from plimsoll.runtime.transaction import new_token

log = structlog.get_logger()

# Kinds that the disruption ledger must see before any controller may evict.
SEEN_BEFORE_EVICTING: tuple[Resource[Any], ...] = (PODS, NODES, BUDGETS, DEPLOYMENTS, REPLICASETS, STATEFULSETS)
# From SIGTERM to exit takes at most ten seconds, even if the API server does not answer: five for reconciles in progress, two to
# release the lease, two for the last events, and one for the rest.
DRAIN_SECONDS = 5.0


def identity() -> str:
    """An identity that is unique to this process: a restarted pod must not mistake the lease of its former self for its own."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"


class Observer(Protocol):
    """Polls a source outside the watched cluster (a provider, metrics.k8s.io) for one controller while the operator runs."""

    controller: str

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None: ...


class DecisionListener(Protocol):
    """Receives decisions with their outcomes, and audit records. Its methods must be quick and must not raise."""

    def acted(self, controller: str, key: Key, decision: Decision, outcome: Outcome) -> None: ...

    def recorded(self, record: AuditRecord) -> None: ...


class Operator:
    """The wired operator. `run` returns the exit code; `not_alive` and `not_ready` return a reason, or None."""

    def __init__(
        self,
        config: Config,
        client: Client,
        controllers: Sequence[Controller],
        *,
        clock: Clock,
        metrics: Metrics,
        name: str,
        providers: Mapping[str, Provider] | None = None,
        observers: Sequence[Observer] = (),
        on_decision: Callable[[str, Key, Decision], None] = lambda *_: None,
        rng: Random | None = None,
    ) -> None:
        """
        on_decision: called with every decision before it is acted on.
        rng: the source of jitter; a seeded one makes a simulation reproducible.
        """
        self._rng = rng or Random()  # noqa: S311 - jitter, not a secret
        self._config = config
        self._client = client
        self._clock = clock
        self.metrics = metrics
        self._observers = observers
        self._ended: asyncio.Future[ExitCode] = asyncio.get_running_loop().create_future()
        self._beginning: asyncio.Task[None] | None = None
        # Disruptions and node losses limit evictions. If no controller evicts, they need not be recorded.
        self._remembers = not config.operator.read_only_mode and any(map(evicts, controllers))

        self._informers = Informers(
            watched_by(controllers), client, clock, metrics, namespaces=config.operator.watch_namespaces,
            idle_timeout=config.kubernetes.watch_idle_timeout, rng=self._rng,
        )  # fmt: skip
        self.view = self._informers.view

        self._election = self._campaign(name)
        leadership = self._election or AlwaysLeading()
        self._leadership = leadership
        self._expectations = Expectations()
        limits = config.operator.disruption_limits
        timing, migrations = config.controllers.workload_timing, config.placement.migration_period
        longest = max(limits.period, migrations, timing.cooldown_period)
        self._ledger = DisruptionLedger(
            DisruptionLimits(limits.per_workload, limits.per_cluster, limits.period), longest_period=longest
        )
        self._memory = DisruptionStore(client, clock, namespace=config.operator.namespace, period=longest)
        self._losses = NodeLossRecorder(
            self._ledger, self._memory, self.view, clock, may_write=lambda: self._remembers and self.leading
        )
        self._recorder = EventRecorder(
            client, clock, controller="plimsoll.dev/operator", instance=name,
            on_result=lambda result: metrics.events.labels(result).inc(),
        )  # fmt: skip
        self._needs = {controller.name: needed_by(controller) for controller in controllers}
        self._listeners: list[DecisionListener] = []
        self._audit = AuditTrail(
            config.operator.audit_log, self._recorded, on_failure=config.audit.on_failure,
            count=lambda result: metrics.audit_records.labels(result).inc(),
        )  # fmt: skip
        self._actuator = Actuator(
            client, self.view, clock, identity=name, leadership=leadership, ledger=self._ledger, memory=self._memory,
            expectations=self._expectations, recorder=self._recorder, metrics=metrics, audit=self._audit,
            read_only=config.operator.read_only_mode, needs=self._needs, providers=providers,
            token=new_token if rng is None else lambda: f"{self._rng.getrandbits(128):032x}",
        )  # fmt: skip
        self.reconcilers = [
            Reconciler(
                controller, self.view, self._actuator, clock, leadership=leadership, expectations=self._expectations,
                metrics=metrics, interval=config.controllers.reconcile_interval,
                workers=config.controllers.max_concurrent_reconciles, rng=self._rng,
                needs=self._needs[controller.name], on_decision=on_decision, on_outcome=self._acted,
            )
            for controller in controllers
        ]  # fmt: skip
        for reconciler in self.reconcilers:
            for resource in reconciler.controller.watches:
                self.view[resource].listen(reconciler.changed)
        if NODES in self.view and PODS in self.view:
            self.view[NODES].listen(self._losses.node_changed)

    def _campaign(self, name: str) -> LeaderElection | None:
        wanted = self._config.operator.leader_election
        if not wanted.enabled or self._config.operator.read_only_mode:
            return None  # a read-only process takes no lease: it must be able to run beside the leader
        return LeaderElection(
            self._client, self._clock, namespace=self._config.operator.namespace, name=wanted.lease_name, identity=name,
            times=LeaseTimes(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period),
            on_elected=lambda _: self._elected(), on_resumed=self._look_at_everything, on_lost=self._lost,
        )  # fmt: skip

    # ── leadership ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def leading(self) -> bool:
        return self._leadership.term() is not None

    def advertise(self, annotations: Mapping[str, str | None]) -> None:
        """Set the annotations that this process puts on the lease when it takes it. Call it before `run`."""
        if self._election is not None:
            self._election.annotations = annotations

    @property
    def leader_annotations(self) -> Mapping[str, str]:
        """The annotations that the current leader put on the lease."""
        return self._election.holder_annotations if self._election is not None else {}

    # ── listeners ────────────────────────────────────────────────────────────────────────────────────────────────────

    def subscribe(self, listener: DecisionListener) -> None:
        """Send decisions with their outcomes, and audit records, to a listener from now on."""
        self._listeners.append(listener)

    def _acted(self, controller: str, key: Key, decision: Decision, outcome: Outcome) -> None:
        for listener in self._listeners:
            listener.acted(controller, key, decision, outcome)

    def _recorded(self, record: AuditRecord) -> None:
        for listener in self._listeners:
            listener.recorded(record)

    # ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def not_alive(self) -> str | None:
        return f"ending: {self._ended.result().name}" if self._ended.done() else None

    def not_ready(self) -> str | None:
        """Leadership is no condition: a synced standby is ready, or a rollout of the operator would never finish."""
        problem = self._informers.not_live(self._config.kubernetes.max_view_age)
        stopped = self.stopped_controllers()
        if problem is None and stopped and len(stopped) == len(self.reconcilers):
            return "; ".join(stopped)
        return problem

    def works(self, controller: str) -> bool:
        """Whether the views that a controller needs are live."""
        return not self.view.stale_among(self._needs.get(controller, ()))

    def stopped_controllers(self) -> list[str]:
        """The controllers that do nothing because the view of a kind that they need is not live, each with the reason."""
        found = []
        for controller, needs in self._needs.items():
            if stale := self.view.stale_among(needs):
                problem = next((text for plural in stale if (text := self._informers.problem_with(plural))), "")
                reason = f"{controller} is stopped: the view of {', '.join(stale)} is not live"
                found.append(f"{reason}: {problem}" if problem else reason)
        return found

    # ── lifecycle ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, stop: asyncio.Event) -> ExitCode:
        """Run until `stop` is set, or until continuing would not be safe."""
        background = [self._spawn(work, name) for name, work in self._informers.tasks()]
        background.append(self._spawn(self._watch_over_views(), "watchdog"))
        queues = {reconciler.controller.name: reconciler.queue for reconciler in self.reconcilers}
        for observer in self._observers:
            looking = observer.run(self.view, lambda: self.leading, queues[observer.controller].add)
            background.append(self._spawn(looking, f"observer of {observer.controller}"))
        recorder = self._spawn(self._recorder.run(), "events")
        election = self._spawn(self._election.run(), "election") if self._election else None
        working = [self._spawn(r.run(), f"controller {r.controller.name}") for r in self.reconcilers]
        losses = self._spawn(self._losses.keep(), "losses")
        if self._election is None:
            self._spawn_beginning()
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            either: tuple[asyncio.Future[Any], ...] = (stopped, self._ended)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            code = self._ended.result() if self._ended.done() else ExitCode.STOPPED
            log.info("stopping", exit_code=int(code), why=code.name.lower())
            if code is ExitCode.STOPPED:
                await self._drain(working)
            return code
        finally:
            # Workers first: nothing may be written once the lease is released.
            await _cancel(stopped, losses, *working, *([self._beginning] if self._beginning else []))
            if election is not None:
                await _cancel(election)
            await _cancel(recorder, *background)
            self._audit.close()

    async def _drain(self, working: Sequence[asyncio.Task[None]]) -> None:
        for reconciler in self.reconcilers:
            reconciler.queue.shut_down()
        if working:
            _, unfinished = await asyncio.wait(working, timeout=DRAIN_SECONDS)
            if unfinished:
                log.warning(
                    "reconciles still running at shutdown", controllers=[task.get_name() for task in unfinished]
                )

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("operator task failed", task=task.get_name(), exc_info=error)
            self._end(ExitCode.UNEXPECTED_ERROR)

    def _end(self, code: ExitCode) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def _elected(self) -> None:
        self.metrics.set_leading([r.controller.name for r in self.reconcilers], leading=True)
        self._expectations.forget()
        self._spawn_beginning()

    def _spawn_beginning(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
        self._beginning = self._spawn(self._begin(), "start of the leadership term")

    async def _begin(self) -> None:
        """Read the recorded disruptions, which count from the first decision on; then enqueue every key."""
        while self._remembers:
            try:
                self._ledger.recall(await self._memory.recall())
                break
            except KubeError as error:
                log.warning("cannot read the recorded disruptions yet; no pod is evicted until then", error=str(error))
                await self._clock.sleep(1)
        self._losses.term_began()
        self._look_at_everything()

    def _look_at_everything(self) -> None:
        # Also when a term was without a valid lease for a moment: changes during that moment enqueued no key.
        for reconciler in self.reconcilers:
            reconciler.enqueue_all()

    def _lost(self, why: str) -> None:
        self.metrics.set_leading([r.controller.name for r in self.reconcilers], leading=False)
        if self._beginning is not None:
            self._beginning.cancel()  # what it reads may be outdated when this process is elected again
        self._ledger.close()
        # Reconciles in progress were decided in a term that has ended. The actuator refuses their writes, but this process still
        # holds what they read and half did. A new process starts clean.
        if any(reconciler.queue.handling for reconciler in self.reconcilers):
            log.error("leadership lost during a reconcile; exiting", why=why)
            self._end(ExitCode.LEADERSHIP_LOST)

    async def _watch_over_views(self) -> None:
        await self._informers.until_too_old(self._config.kubernetes.exit_view_age)
        self._end(ExitCode.VIEW_TOO_OLD)


def watched_by(controllers: Sequence[Controller]) -> tuple[Resource[Any], ...]:
    """Every kind that the controllers need to watch."""
    return tuple(dict.fromkeys(resource for controller in controllers for resource in needed_by(controller)))


def needed_by(controller: Controller) -> tuple[Resource[Any], ...]:
    """The kinds without which a controller decides nothing."""
    return (*controller.watches, *(SEEN_BEFORE_EVICTING if evicts(controller) else ()))


def evicts(controller: Controller) -> bool:
    return any(permission.resource == "pods/eviction" for permission in controller.permissions)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def connect(config: Config, metrics: Metrics, *, kubeconfig: Path | None, context: str | None) -> Client:
    """Create a client for the cluster that the flags and the environment select."""

    # Looking up a labelled series locks and compares every label; a thousand writes use the same two.
    count_of, seconds_of = cache(metrics.requests.labels), cache(metrics.request_seconds.labels)

    def observe(verb: str, resource: str, code: int, seconds: float) -> None:
        count_of(verb, resource, str(code)).inc()
        seconds_of(verb, resource).observe(seconds)

    return Client(
        load_credentials(kubeconfig, context), clock=RealClock(), qps=config.kubernetes.qps, burst=config.kubernetes.burst,
        timeout_seconds=config.kubernetes.request_timeout.total_seconds(), observe=observe,
    )  # fmt: skip
