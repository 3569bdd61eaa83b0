"""A clock whose speed can be changed while people watch, down to a standstill."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class PacedClock:
    def __init__(self, speed: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = datetime.now(UTC)
        self._real = self._loop.time()
        self._passed = 0.0
        self._speed = speed
        self._changed = asyncio.Event()

    @property
    def speed(self) -> float:
        """Seconds that pass in one; 0 while time stands still."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._passed, self._real = self.monotonic(), self._loop.time()
        self._speed = speed
        self._changed.set()
        self._changed = asyncio.Event()

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._passed + (self._loop.time() - self._real) * self._speed

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        if seconds <= 0:
            await asyncio.sleep(0)
        while (left := due - self.monotonic()) > 0:
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), left / self._speed if self._speed > 0 else None)
            except TimeoutError:
                continue
