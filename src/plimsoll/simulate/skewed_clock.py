"""The clock of one process: its wall time may be wrong, jump, and be set right again."""

from __future__ import annotations

from datetime import datetime, timedelta

from plimsoll.runtime.clock import Clock


class LocalClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta(0)  # of the time that the cluster has; negative where it is late

    def now(self) -> datetime:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
