"""Client-side rate limit, which protects the shared API server from one busy client."""

from __future__ import annotations

from plimsoll.runtime.clock import Clock


class RateLimit:
    """A token bucket: `burst` at once, `per_second` on average, first come first served."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"rate limit of {per_second} per second with a burst of {burst}: expected both above zero")
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst  # negative: tokens owed to waiting calls
        self._filled_at = clock.monotonic()

    async def take(self, *, urgent: bool = False) -> None:
        """Wait for a token. An urgent call does not wait, and others wait a little longer for it.

        The turn of a call is fixed when it arrives: each waits for its own token, so that later calls cannot overtake or starve it.
        """
        self._fill()
        self._tokens -= 1
        if urgent or self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self._per_second)
        except BaseException:
            self._tokens += 1  # cancelled: return the token
            raise

    def take_now(self) -> bool:
        """Take a token if there is one; False, without a debt, if there is none."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
