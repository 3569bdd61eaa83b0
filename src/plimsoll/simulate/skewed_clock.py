"""The clock of one operator process, whose wall time may be skewed against the cluster's and may jump."""

from __future__ import annotations

from datetime import datetime, timedelta

from plimsoll.runtime.clock import Clock


class SkewedClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta(0)  # skew against the cluster's time; negative: behind

    def now(self) -> datetime:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
