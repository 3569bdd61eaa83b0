"""Clocks that tests can push."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from plimsoll.runtime.clock import RealClock


class PushedClock(RealClock):
    """The real clock, moved ahead or back by a test; a sleep lasts as long as it takes, or less if time is pushed."""

    def __init__(self) -> None:
        self.wall_offset = timedelta(0)
        self.monotonic_offset = 0.0
        self._pushed = asyncio.Event()

    def now(self) -> datetime:
        return super().now() + self.wall_offset

    def monotonic(self) -> float:
        return super().monotonic() + self.monotonic_offset

    def push(self, seconds: float) -> None:
        """Time passes at once, for everyone who measures it monotonically."""
        self.monotonic_offset += seconds
        pushed, self._pushed = self._pushed, asyncio.Event()
        pushed.set()

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        while (left := due - self.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._pushed.wait()
            except TimeoutError:
                return


class HurriedClock(RealClock):
    """Whoever sleeps is woken after a fifth of the time: back-offs are short. Ages and tenures are measured as ever."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 5)


class StandingClock(PushedClock):
    """No time passes but what a test pushes."""

    def monotonic(self) -> float:
        return self.monotonic_offset

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        while self.monotonic() < due:
            await self._pushed.wait()
