"""Time for tests that talk to the emulator: pauses are over at once, and time passes by them; deadlines come when a test says so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from plimsoll.providers.vpsie.http import TIMEOUT_SECONDS

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class SkippingClock:
    def __init__(self) -> None:
        self.passed = 0.0
        self._pushed = asyncio.Event()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return 1000.0 + self.passed

    def push(self, seconds: float) -> None:
        self.passed += seconds
        pushed, self._pushed = self._pushed, asyncio.Event()
        pushed.set()

    async def sleep(self, seconds: float) -> None:
        if seconds != TIMEOUT_SECONDS:
            self.passed += seconds
            await asyncio.sleep(0)
            return
        due = self.monotonic() + seconds  # the deadline of a request that is under way
        while self.monotonic() < due:
            await self._pushed.wait()
