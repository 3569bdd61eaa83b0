"""The reconcile loop that all controllers share: take a key, decide from the view, let the actuator act.

A change of an object only says *which* keys to reconcile. What to do follows from the view alone, so a lost, repeated or late
watch event changes nothing but the time of the next reconcile. The operator builds one `Reconciler` per controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from plimsoll.kube.cache.store import View
from plimsoll.kube.leader_election import Leadership
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.kube.workqueue import Queue, ShutDown
from plimsoll.runtime.actuator import TRANSIENT_BLOCKERS, Actuator
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Controller, Decision, Event
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import Outcome

log = structlog.get_logger()

# While the view is stale or lags behind, the key is retried once per second. The change that ends the wait also wakes the key.
VIEW_POLL_SECONDS = 1.0
# A key that a budget or limit blocks is retried at this pace; usually a change of the pods wakes it earlier.
BLOCKED_RETRY_SECONDS = 10.0


class Reconciler:
    """The work queue and the workers of one controller."""

    def __init__(
        self,
        controller: Controller,
        view: View,
        actuator: Actuator,
        clock: Clock,
        *,
        leadership: Leadership,
        expectations: Expectations,
        metrics: Metrics,
        interval: timedelta,
        workers: int,
        needs: Sequence[Resource[Any]] = (),
        on_decision: Callable[[str, Key, Decision], None] = lambda *_: None,
        on_outcome: Callable[[str, Key, Decision, Outcome], None] = lambda *_: None,
        rng: Random | None = None,
    ) -> None:
        """needs: the kinds without a live view of which the controller decides nothing; by default those that it watches."""
        self.controller = controller
        self._needs = tuple(needs or controller.watches)
        self._view = view
        self._actuator = actuator
        self._clock = clock
        self._leadership = leadership
        self._expectations = expectations
        self._metrics = metrics
        self._interval = interval
        self._workers = workers
        self._on_decision = on_decision
        self._on_outcome = on_outcome
        self._rng = rng or Random()  # noqa: S311 - jitter, not a secret
        depth = metrics.queue_depth.labels(controller.name)
        self.queue: Queue[Key] = Queue(clock, rng=self._rng, on_depth=depth.set)
        self._reported: dict[
            Key, frozenset[tuple[str, str, str]]
        ] = {}  # problems and events: object UID, code, message
        self._last_reason: dict[Key, str] = {}

    def changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        """Enqueue the keys that a change concerns; registered with each store that the controller watches."""
        if self._leadership.term() is None:
            return  # a standby enqueues all keys when it is elected
        for state in (before, after):
            if state is not None:
                for key in self._keys(resource, state):
                    self.queue.add(key)

    def enqueue_all(self) -> None:
        """Enqueue every key, at the start of each leadership term."""
        for resource in self.controller.watches:
            for obj in self._view[resource]:
                for key in self._keys(resource, obj):
                    self.queue.add(key)

    def _keys(self, resource: Resource[Any], obj: KubeObject) -> tuple[Key, ...]:
        try:
            # Sorted, because the order of a set differs between processes and simulations must be reproducible.
            return tuple(sorted(self.controller.keys(resource, obj, self._view)))
        except Exception:
            log.exception("keys failed", controller=self.controller.name, object=str(resource.key(obj)))
            self._metrics.errors.labels(self.controller.name, "keys").inc()
            return ()

    async def run(self) -> None:
        """Reconcile until the queue is shut down and the keys in progress are finished."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.take()
            except ShutDown:
                return
            try:
                with self._metrics.reconcile_seconds.labels(self.controller.name).time():
                    await self._reconcile(key)
            except Exception as error:
                delay = self.queue.retry(key)
                self._metrics.errors.labels(self.controller.name, type(error).__name__).inc()
                log.exception("reconcile failed", controller=self.controller.name, key=str(key), again_in_seconds=delay)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: Key) -> None:
        name = self.controller.name
        term = self._leadership.term()
        if term is None:
            return
        if self._view.stale_among(self._needs):
            self.queue.add_after(key, VIEW_POLL_SECONDS)
            return
        if (behind := self._expectations.behind(key, self._view)) is not None:
            log.debug("waiting for own write", controller=name, key=str(key), object=str(behind))
            self.queue.add_after(key, VIEW_POLL_SECONDS)
            return
        with self._metrics.decide_seconds.labels(name).time():
            decision = self.controller.decide(key, self._view, self._clock.now())
        self._report(key, decision)
        outcome = await self._actuator.act(name, key, decision, term)
        self._metrics.publish_blockers(name, key, [b.code for b in (*decision.blockers, *outcome.blockers)])
        self._on_outcome(name, key, decision, outcome)
        self._requeue(key, decision, outcome)

    def _report(self, key: Key, decision: Decision) -> None:
        name = self.controller.name
        self._metrics.decisions.labels(name, decision.reason.code).inc()
        self._metrics.publish(name, key, decision.gauges)
        self._metrics.count(decision.counts)
        self._metrics.last_seen.labels(name).set(self._clock.now().timestamp())
        self._on_decision(name, key, decision)
        if self._last_reason.get(key) != decision.reason.code:
            self._last_reason[key] = decision.reason.code
            log.info(
                "decided", controller=name, key=str(key), reason=str(decision.reason), actions=len(decision.actions)
            )
        # Problems and events are reported once, and again only after they disappeared or changed.
        before, reported = self._reported.get(key, frozenset()), set()
        for problem in decision.problems:
            identity = (problem.regarding.uid, problem.code, problem.message)
            reported.add(identity)
            if identity not in before:
                self._metrics.problems.labels(name, problem.code).inc()
                self._metrics.count(problem.counts)
                log.error(problem.message, controller=name, key=str(key), code=problem.code)
                self._actuator.record_event(Event(problem.regarding, problem.code, problem.message, "Warning"))
        for event in decision.events:
            identity = (event.regarding.uid, event.reason, event.message)
            reported.add(identity)
            if identity not in before:
                if event.type == "Warning":
                    log.warning(event.message, controller=name, key=str(key), code=event.reason)
                self._actuator.record_event(event)
        if reported:
            self._reported[key] = frozenset(reported)
        else:
            self._reported.pop(key, None)

    def _requeue(self, key: Key, decision: Decision, outcome: Outcome) -> None:
        if outcome.failed:
            self.queue.retry(key)
            return
        if outcome.overtaken:
            # The change that overtook us also wakes the key once the view shows it. Until then the same decision would fail
            # again, however far the watch lags behind, so the delay grows each time.
            self.queue.retry(key, at_most_seconds=BLOCKED_RETRY_SECONDS)
        else:
            self.queue.forget(key)
        if any(blocker.code in TRANSIENT_BLOCKERS for blocker in outcome.blockers):
            self.queue.add_after(key, VIEW_POLL_SECONDS)
        elif outcome.blockers:
            self.queue.add_after(key, BLOCKED_RETRY_SECONDS * self._rng.uniform(0.8, 1.2))
        if decision.forget and not outcome.results:
            self._last_reason.pop(key, None)
            return
        if decision.requeue_after is not None:
            self.queue.add_after(key, decision.requeue_after.total_seconds())
        # Every key is reconciled again after the interval, even without a change; jitter spreads them.
        self.queue.add_after(key, self._interval.total_seconds() * self._rng.uniform(0.8, 1.0))
