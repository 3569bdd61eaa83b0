"""The loop that all controllers share: a key comes, the view is asked, a decision falls, the door acts on it.

A change of any object only says *which* keys to look at. What to do follows from the view alone, so an event that is lost,
doubled or late changes nothing but the time of the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from plimsoll.kube.cache.store import View
from plimsoll.kube.leader_election import Leadership
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.kube.workqueue import Queue, ShutDown
from plimsoll.runtime.actuator import PASSING, Actuator
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Controller, Decision, Event
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import Outcome

log = structlog.get_logger()

# Waiting for the view costs a look a second at most: the change that ends the wait also wakes the key by itself.
VIEW_POLL_SECONDS = 1.0
# A budget or limit that says no is asked again at this pace; most of the time a change of the pods wakes the key earlier.
BLOCKED_RETRY_SECONDS = 10.0


class Reconciler:
    """One controller's keys and workers."""

    def __init__(
        self,
        controller: Controller,
        view: View,
        door: Actuator,
        clock: Clock,
        *,
        leadership: Leadership,
        expectations: Expectations,
        metrics: Metrics,
        interval: timedelta,
        workers: int,
        on_decision: Callable[[str, Key, Decision], None] = lambda *_: None,
        on_outcome: Callable[[str, Key, Decision, Outcome], None] = lambda *_: None,
        rng: Random | None = None,
    ) -> None:
        self.controller = controller
        self._view = view
        self._door = door
        self._clock = clock
        self._leadership = leadership
        self._own_writes = expectations
        self._metrics = metrics
        self._interval = interval
        self._workers = workers
        self.on_decision = on_decision
        self.on_outcome = on_outcome
        self._rng = rng or Random()  # noqa: S311 - jitter, not a secret
        depth = metrics.queue_depth.labels(controller.name)
        self.queue: Queue[Key] = Queue(rng=self._rng, on_depth=depth.set)
        self._said: dict[Key, frozenset[tuple[str, str, str]]] = {}  # problems and notes: about whom, code, message
        self._last_reason: dict[Key, str] = {}

    def changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        """An object came, changed or went; registered with each store that the controller watches."""
        if self._leadership.epoch() is None:
            return  # a standby looks at everything when it is elected
        for state in (before, after):
            if state is not None:
                for key in self._keys(resource, state):
                    self.queue.add(key)

    def look_at_everything(self) -> None:
        """Enter every key there is: at the start, and at the start of each tenure."""
        for resource in self.controller.watches:
            for obj in self._view[resource]:
                for key in self._keys(resource, obj):
                    self.queue.add(key)

    def _keys(self, resource: Resource[Any], obj: KubeObject) -> tuple[Key, ...]:
        try:
            # Sorted: the order of a set differs from one process to the next, and a history should not.
            return tuple(sorted(self.controller.keys(resource, obj, self._view)))
        except Exception:
            log.exception("keys failed", controller=self.controller.name, object=str(resource.key(obj)))
            self._metrics.errors.labels(self.controller.name, "keys").inc()
            return ()

    async def run(self) -> None:
        """Work until the queue is shut down and the last key in hand is finished."""
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
        epoch = self._leadership.epoch()
        if epoch is None:
            return
        if self._view.stale:
            self.queue.add_after(key, VIEW_POLL_SECONDS)
            return
        if (behind := self._own_writes.behind(key, self._view)) is not None:
            log.debug("waiting for own write", controller=name, key=str(key), object=str(behind))
            self.queue.add_after(key, VIEW_POLL_SECONDS)
            return
        with self._metrics.decide_seconds.labels(name).time():
            decision = self.controller.decide(key, self._view, self._clock.now())
        self._report(key, decision)
        outcome = await self._door.act(name, key, decision, epoch)
        self._metrics.publish_blockers(name, key, [b.code for b in (*decision.blockers, *outcome.blockers)])
        self.on_outcome(name, key, decision, outcome)
        self._come_back(key, decision, outcome)

    def _report(self, key: Key, decision: Decision) -> None:
        name = self.controller.name
        self._metrics.decisions.labels(name, decision.reason.code).inc()
        self._metrics.publish(name, key, decision.gauges)
        self._metrics.count(decision.counts)
        self._metrics.last_seen.labels(name).set(self._clock.now().timestamp())
        self.on_decision(name, key, decision)
        if self._last_reason.get(key) != decision.reason.code:
            self._last_reason[key] = decision.reason.code
            log.info(
                "decided", controller=name, key=str(key), reason=str(decision.reason), actions=len(decision.actions)
            )
        # Problems and notes are told once, and again only after they were gone or said something else.
        before, said = self._said.get(key, frozenset()), set()
        for problem in decision.problems:
            identity = (problem.regarding.uid, problem.code, problem.message)
            said.add(identity)
            if identity not in before:
                self._metrics.problems.labels(name, problem.code).inc()
                self._metrics.count(problem.counts)
                log.error(problem.message, controller=name, key=str(key), code=problem.code)
                self._door.tell(Event(problem.regarding, problem.code, problem.message, "Warning"))
        for event in decision.events:
            identity = (event.regarding.uid, event.reason, event.message)
            said.add(identity)
            if identity not in before:
                if event.type == "Warning":
                    log.warning(event.message, controller=name, key=str(key), code=event.reason)
                self._door.tell(event)
        if said:
            self._said[key] = frozenset(said)
        else:
            self._said.pop(key, None)

    def _come_back(self, key: Key, decision: Decision, outcome: Outcome) -> None:
        if outcome.failed:
            self.queue.retry(key)
            return
        if outcome.overtaken:
            # What overtook us also wakes the key, once the view shows it. Until then, however far a watch lags behind, the same
            # decision only falls again: it is tried later each time.
            self.queue.retry(key, at_most_seconds=BLOCKED_RETRY_SECONDS)
        else:
            self.queue.forgive(key)
        if any(blocker.code in PASSING for blocker in outcome.blockers):
            self.queue.add_after(key, VIEW_POLL_SECONDS)
        elif outcome.blockers:
            self.queue.add_after(key, BLOCKED_RETRY_SECONDS * self._rng.uniform(0.8, 1.2))
        if decision.forget and not outcome.results:
            self._last_reason.pop(key, None)
            return
        if decision.requeue_after is not None:
            self.queue.add_after(key, decision.requeue_after.total_seconds())
        # A key is looked at again even if nothing is heard of it; spread, so that they do not all come at once.
        self.queue.add_after(key, self._interval.total_seconds() * self._rng.uniform(0.8, 1.0))
