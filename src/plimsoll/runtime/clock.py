"""The clock that everything receives as an argument, so that tests and simulations can run on scaled or virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The time source of the runtime. Decisions receive `now()` as an argument, never a clock."""

    def now(self) -> datetime:
        """The wall clock, in UTC. It may jump, so no safety check may compare two of its readings."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease and advance while the machine is suspended. Use it for leases, time-outs and ages."""
        ...

    async def sleep(self, seconds: float) -> None: ...


# On Linux this clock advances during suspend: a leader that was suspended past its lease notices when it resumes.
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_on_clock(clock: Clock, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Like `asyncio.wait_for`, but the time-out runs on `clock`; None: no time-out. Raises TimeoutError."""
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        for one in (task, sleeper):
            one.cancel()
        await asyncio.gather(task, sleeper, return_exceptions=True)
