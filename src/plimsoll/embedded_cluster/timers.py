"""What is to happen later, on whatever clock the cluster runs."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from plimsoll.runtime.clock import Clock


class Entry:
    """Something that is to happen; cancelled, it does not."""

    __slots__ = ("cancelled", "what")

    def __init__(self, what: Callable[[], None]) -> None:
        self.what = what
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Agenda:
    """Calls functions at their time, in the order of their times and then of their entry: the same in every run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._entries: list[tuple[float, int, Entry]] = []
        self._numbers = itertools.count()
        self._sleeper: asyncio.Task[None] | None = None
        self._sleeps_until = float("inf")

    def later(self, seconds: float, what: Callable[[], None]) -> Entry:
        due = self.clock.monotonic() + max(0.0, seconds)
        entry = Entry(what)
        heapq.heappush(self._entries, (due, next(self._numbers), entry))
        if due < self._sleeps_until:
            self._sleep()
        return entry

    def every(self, seconds: float, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self.later(seconds, again)

        self.later(seconds, again)

    def close(self) -> None:
        self._entries.clear()
        if self._sleeper is not None:
            self._sleeper.cancel()
            self._sleeper = None

    def _sleep(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._sleeps_until = self._entries[0][0]
        self._sleeper = asyncio.get_running_loop().create_task(self._run_when_due(), name="agenda")

    async def _run_when_due(self) -> None:
        while self._entries:
            due = self._sleeps_until = self._entries[0][0]
            wait = due - self.clock.monotonic()
            if wait > 0:
                await self.clock.sleep(wait)
                continue
            _, _, entry = heapq.heappop(self._entries)
            # What it calls may add an entry: nobody needs to wake a task that is awake.
            self._sleeps_until = float("-inf")
            if not entry.cancelled:
                entry.what()
        self._sleeps_until = float("inf")
        self._sleeper = None
