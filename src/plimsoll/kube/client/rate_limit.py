"""How fast we may ask: the API server is shared, and one busy client must not be all that it hears."""

from __future__ import annotations

from plimsoll.runtime.clock import Clock


class RateLimit:
    """A bucket of tokens: `burst` at once, `per_second` in the long run, first come first served."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate limit of {per_second} a second with a burst of {burst}: expected both above zero")
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst  # negative: what is owed to those who wait
        self._filled_at = clock.monotonic()

    async def take(self, *, urgent: bool = False) -> None:
        """Wait for one's turn. Who is urgent goes at once, and the others wait a little longer for it.

        A turn is fixed when it is asked for: each waits until its own token is there, so that nobody can be overtaken or
        starve behind later comers.
        """
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        self._tokens -= 1
        if urgent or self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self._per_second)
        except BaseException:
            self._tokens += 1  # cancelled: the turn goes back
            raise
