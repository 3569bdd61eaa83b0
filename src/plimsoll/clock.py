"""Time as a value that is passed in, so that a day can be an hour, or no time at all."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the runtime asks of time. Decisions get `now()` as an argument and never a clock."""

    def now(self) -> datetime:
        """The wall clock, in UTC. It may jump: nothing that must be safe may compare two of its readings."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow. Leases, time-outs and ages are measured with it."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
