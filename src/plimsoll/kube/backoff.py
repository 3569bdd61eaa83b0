"""Exponential back-off with jitter."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from `base_seconds` to `cap_seconds`, each shortened at random by up to a half.

    The fixed half protects a failing server from immediate retries. The random half keeps many clients that lost the same
    server from returning together.
    """

    def __init__(self, base_seconds: float, cap_seconds: float, rng: random.Random) -> None:
        if not 0 < base_seconds <= cap_seconds:
            raise ValueError(f"a back-off from {base_seconds} s to {cap_seconds} s: expected 0 < base <= cap")
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._rng = rng
        self.failures = 0  # since the last reset

    def next(self) -> float:
        """Count one more failure and return the seconds to wait after it."""
        # 2^64 times any base is beyond any cap; without the limit a year of failures would overflow a float.
        longest = min(self._cap_seconds, self._base_seconds * 2.0 ** min(self.failures, 64))
        self.failures += 1
        return longest * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self.failures = 0
