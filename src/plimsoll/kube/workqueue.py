"""The work queue of keys to reconcile; each `Reconciler` has one.

It guarantees that a key is queued at most once, however often it is added; that a key is never processed twice at the same
time (an add during processing takes effect when the key is done); and that a failing key waits longer each time without
delaying others.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from plimsoll.runtime.clock import Clock

K = TypeVar("K")

# After this many urgent keys in a row, one ordinary key is taken, so that urgent keys cannot starve the others.
URGENT_IN_A_ROW = 8
# Outdated timers stay in the heap until it holds this many more entries than there are delayed keys.
_MOST_OUTDATED_TIMERS = 1000


class ShutDown(Exception):
    """The queue was shut down and returns no more keys."""


class Queue(Generic[K]):
    """The keys of one controller. Delays run on the injected clock, so that scaled and virtual time behave like real time."""

    def __init__(
        self,
        clock: Clock,
        *,
        retry_base_seconds: float = 0.2,
        retry_cap_seconds: float = 120.0,
        rng: Random | None = None,
        on_depth: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._retry_base_seconds = retry_base_seconds
        self._retry_cap_seconds = retry_cap_seconds
        self._rng = rng or Random()  # noqa: S311 - jitter, not a secret
        self._on_depth = on_depth
        self._urgent: deque[K] = deque()
        self._ordinary: deque[K] = deque()
        self._waiting: set[K] = set()  # in one of the two lanes
        self._handling: dict[K, bool | None] = {}  # being processed; value: whether it was added again, urgently or not
        self._due: dict[K, tuple[float, int]] = {}  # delayed keys: when each one is due, and the number of its timer
        self._timers: list[tuple[float, int, K]] = []  # heap; timers that `_due` does not name are outdated
        self._timer_numbers = itertools.count()
        self._sleeper: asyncio.Task[None] | None = None
        self._sleeps_until = math.inf
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._urgent_run = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def handling(self) -> int:
        """How many keys are being processed."""
        return len(self._handling)

    @property
    def idle(self) -> bool:
        """Whether no key is queued or being processed. Delayed keys may still exist."""
        return not self._waiting and not self._handling

    def add(self, key: K, *, urgent: bool = False) -> None:
        """Queue `key`."""
        if self._closed:
            return
        if key in self._handling:
            self._handling[key] = urgent or bool(self._handling[key])
            return
        if key in self._waiting:
            if urgent and key not in self._urgent:
                self._ordinary.remove(key)
                self._urgent.append(key)
            return
        self._waiting.add(key)
        (self._urgent if urgent else self._ordinary).append(key)
        self._on_depth(len(self._waiting))
        self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue `key` after `seconds`. Of several delays for one key the earliest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if key in self._due and self._due[key][0] <= due:
            return
        number = next(self._timer_numbers)
        self._due[key] = (due, number)
        heapq.heappush(self._timers, (due, number, key))
        self._drop_outdated_timers()
        if due < self._sleeps_until:
            if self._sleeper is not None:
                self._sleeper.cancel()
            self._sleeps_until = due
            self._sleeper = asyncio.create_task(self._run_timers(), name="work queue timers")

    def retry(self, key: K, *, at_most_seconds: float = math.inf) -> float:
        """Queue `key` again after its back-off; returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        cap = min(self._retry_cap_seconds, at_most_seconds)
        delay = min(cap, self._retry_base_seconds * 2.0 ** min(failures - 1, 30))
        delay *= self._rng.uniform(0.5, 1.0)  # keys that failed together must not return together
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the back-off of a key that succeeded."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """Wait for the next key. The caller must call `done` with it."""
        while not self._waiting:
            if self._closed:
                raise ShutDown
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # A taker that was woken and cancelled at once passes the wake-up on, or a queued key would have no taker.
                if taker.done() and not taker.cancelled():
                    self._wake_one()
                elif taker in self._takers:
                    self._takers.remove(taker)
                raise
        if self._closed:
            raise ShutDown
        key = self._next()
        self._waiting.discard(key)
        self._handling[key] = None
        # The key is processed now, so its delayed entry is obsolete; this reconcile sets the next one.
        self._due.pop(key, None)
        self._on_depth(len(self._waiting))
        return key

    def done(self, key: K) -> None:
        again_urgently = self._handling.pop(key)
        if again_urgently is not None:
            self.add(key, urgent=again_urgently)

    def shut_down(self) -> None:
        """Return no more keys. Keys being processed are finished; queued ones are found again after a restart."""
        self._closed = True
        if self._sleeper is not None:
            self._sleeper.cancel()
            self._sleeper = None
        self._timers.clear()
        self._due.clear()
        self._urgent.clear()
        self._ordinary.clear()
        self._waiting.clear()
        while self._takers:
            self._wake_one()

    async def _run_timers(self) -> None:
        """Queue delayed keys when they are due; ends when none is left."""
        while self._timers:
            due, number, key = self._timers[0]
            if self._due.get(key) == (due, number) and (wait := due - self._clock.monotonic()) > 0:
                self._sleeps_until = due
                await self._clock.sleep(wait)
                continue
            heapq.heappop(self._timers)
            if self._due.get(key) == (due, number):
                del self._due[key]
                self.add(key)
        self._sleeps_until = math.inf
        self._sleeper = None

    def _drop_outdated_timers(self) -> None:
        if len(self._timers) > len(self._due) + _MOST_OUTDATED_TIMERS:
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[:2]]
            heapq.heapify(self._timers)

    def _next(self) -> K:
        take_urgent = bool(self._urgent) and (self._urgent_run < URGENT_IN_A_ROW or not self._ordinary)
        self._urgent_run = self._urgent_run + 1 if take_urgent else 0
        return (self._urgent if take_urgent else self._ordinary).popleft()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
