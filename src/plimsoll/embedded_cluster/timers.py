"""Timers on the cluster's clock. Kubelets, controllers, watches and the cloud schedule their callbacks here."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

import structlog

from plimsoll.runtime.clock import Clock

log = structlog.get_logger()


class Timer:
    """A scheduled callback that can be cancelled."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """Runs callbacks in the order of their times and then of their registration: the same order in every run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._entries: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._sleeper: asyncio.Task[None] | None = None
        self._sleeps_until = float("inf")
        self.errors: list[str] = []  # of callbacks that failed

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        due = self.clock.monotonic() + max(0.0, seconds)
        entry = Timer(callback)
        heapq.heappush(self._entries, (due, next(self._numbers), entry))
        if due < self._sleeps_until:
            self._sleep()
        return entry

    def call_every(self, seconds: float, callback: Callable[[], None]) -> None:
        def again() -> None:
            try:
                callback()
            finally:
                self.call_later(seconds, again)

        self.call_later(seconds, again)

    def close(self) -> None:
        self._entries.clear()
        if self._sleeper is not None:
            self._sleeper.cancel()
            self._sleeper = None

    def _sleep(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._sleeps_until = self._entries[0][0]
        self._sleeper = asyncio.get_running_loop().create_task(self._run_when_due(), name="timers")

    async def _run_when_due(self) -> None:
        while self._entries:
            due = self._sleeps_until = self._entries[0][0]
            wait = due - self.clock.monotonic()
            if wait > 0:
                await self.clock.sleep(wait)
                continue
            _, _, entry = heapq.heappop(self._entries)
            # A callback may add a timer: this task is awake and needs no wake-up.
            self._sleeps_until = float("-inf")
            if not entry.cancelled:
                self._run(entry.callback)
        self._sleeps_until = float("inf")
        self._sleeper = None

    def _run(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # One failed callback must not stop the clock of the whole cluster.
            self.errors.append(f"timer: {error!r}")
            log.exception("timer of the embedded cluster failed")
