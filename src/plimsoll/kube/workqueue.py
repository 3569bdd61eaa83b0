"""Keys that wait to be reconciled.

Three promises: a key waits at most once, however often it is added; a key is never handled twice at the same time (an
add during its handling is kept and follows when it is done); a key that fails waits longer each time, and others do not.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

K = TypeVar("K")

# After so many urgent keys in a row, one that is not urgent gets its turn: urgent means sooner, not instead.
URGENT_IN_A_ROW = 8


class ShutDown(Exception):
    """The queue gives out no more keys."""


class Queue(Generic[K]):
    """One consumer group's keys, on the running event loop."""

    def __init__(
        self,
        *,
        retry_base_seconds: float = 0.2,
        retry_cap_seconds: float = 120.0,
        rng: Random | None = None,
        on_depth: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._retry_base_seconds = retry_base_seconds
        self._retry_cap_seconds = retry_cap_seconds
        self._rng = rng or Random()  # noqa: S311 - jitter, not a secret
        self._on_depth = on_depth
        self._urgent: deque[K] = deque()
        self._ordinary: deque[K] = deque()
        self._waiting: set[K] = set()  # in one of the two lanes
        self._handling: dict[K, bool | None] = {}  # in a worker's hands; added again meanwhile: whether urgently
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._urgent_run = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def handling(self) -> int:
        """How many keys are in workers' hands now."""
        return len(self._handling)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being handled; delayed keys may still come."""
        return not self._waiting and not self._handling

    def add(self, key: K, *, urgent: bool = False) -> None:
        """Handle `key` soon."""
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
        """Handle `key` after a while, or earlier if someone asks for that; the earliest wish counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._ring, key)

    def retry(self, key: K, *, at_most_seconds: float = math.inf) -> float:
        """Handle `key` again after its back-off; returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        cap = min(self._retry_cap_seconds, at_most_seconds)
        delay = min(cap, self._retry_base_seconds * 2.0 ** min(failures - 1, 30))
        delay *= self._rng.uniform(0.5, 1.0)  # so that what failed together does not come back together
        self.add_after(key, delay)
        return delay

    def forgive(self, key: K) -> None:
        """The key went well: its next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key; it must be given back with `done`."""
        while not self._waiting:
            if self._closed:
                raise ShutDown
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # A taker that was woken and cancelled at once passes the wake-up on, or a key would wait for nobody.
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
        # What was due later is being looked at now; the look decides anew when to look again.
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._on_depth(len(self._waiting))
        return key

    def done(self, key: K) -> None:
        again_urgently = self._handling.pop(key)
        if again_urgently is not None:
            self.add(key, urgent=again_urgently)

    def shut_down(self) -> None:
        """Give out no more keys. Those in workers' hands are finished; those that wait are found anew after a restart."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._urgent.clear()
        self._ordinary.clear()
        self._waiting.clear()
        while self._takers:
            self._wake_one()

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

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
