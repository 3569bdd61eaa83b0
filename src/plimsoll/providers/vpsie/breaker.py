"""A service that fails again and again is left in peace for a while, and then asked once before all ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll.clock import Clock
from plimsoll.providers.errors import ProviderUnreachable

FAILURES = 5
PAUSE_SECONDS = 30.0


class Breaker:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0  # in a row
        self._last = ""
        self._paused_until = 0.0
        self._probing = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Leave to ask. ProviderUnreachable, and nothing is to be sent, while the service is left in peace."""
        if self._failures >= FAILURES:
            left = self._paused_until - self._clock.monotonic()
            if left > 0 or self._probing:
                when = f"for {left:.0f} s" if left > 0 else "until another request is answered"
                raise ProviderUnreachable(
                    f"VPSie is not asked {when}, after {self._failures} failures in a row; the last: {self._last}"
                )
            self._probing = True
        try:
            yield
        finally:
            self._probing = False

    def failed(self, why: str) -> None:
        """No reply, or one that tells of a service in trouble."""
        self._failures += 1
        self._last = why
        if self._failures >= FAILURES:
            self._paused_until = self._clock.monotonic() + PAUSE_SECONDS

    def answered(self) -> None:
        """Also by a refusal: the service is there."""
        self._failures = 0
