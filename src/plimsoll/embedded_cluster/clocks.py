"""Clocks besides the real one: scaled time (faster by a factor) and virtual time (as fast as the work allows)."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

# A fixed start, so that runs are comparable.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class ScaledClock:
    """Real time, `speed` times as fast. The speed may change at any time; 0 pauses the clock."""

    def __init__(self, speed: float) -> None:
        if speed <= 0:
            raise ValueError(f"the speed is {speed:g}; expected a number above 0, such as 60 for an hour in a minute")
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()  # when the speed was last changed
        self._passed = 0.0  # by then
        self._began = datetime.now(UTC)
        self._changed = asyncio.Event()

    @property
    def speed(self) -> float:
        """Seconds per real second; 0 while paused."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._passed, self._since = self.monotonic(), self._loop.time()
        self._speed = speed
        self._changed.set()
        self._changed = asyncio.Event()

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._passed + (self._loop.time() - self._since) * self._speed

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        if seconds <= 0:
            await asyncio.sleep(0)
        while (left := due - self.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._changed.wait(), left / self._speed if self._speed > 0 else None)
            except TimeoutError:
                continue


class VirtualClock:
    """The time of a `VirtualLoop`: it stands still while there is work and then jumps to the next timer."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the loop's time to the next timer instead of waiting. It waits only for other threads."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout == 0:
            return ()  # callbacks are ready: run them first, results of other threads can wait
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            return super().select(None)
        self.elapsed += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, for work whose only I/O is in-process calls."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and the tasks it starts in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
