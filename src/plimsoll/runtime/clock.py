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
        """Seconds that only ever grow, also while the machine sleeps. Leases, time-outs and ages are measured with it."""
        ...

    async def sleep(self, seconds: float) -> None: ...


# Linux has a clock that goes on while the machine is suspended: a leader that slept through its lease knows it on waking.
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
