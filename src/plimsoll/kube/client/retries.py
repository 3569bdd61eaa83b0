"""Retries of failed calls: only if a repeat is idempotent, with back-off, and within the call's time limit."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from enum import Enum

from plimsoll.kube.backoff import Backoff
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import (
    AlreadyExists,
    Ambiguous,
    ApiError,
    Conflict,
    CredentialsError,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from plimsoll.kube.client.rate_limit import RateLimit
from plimsoll.kube.client.transport import ApiCall, Transport
from plimsoll.runtime.clock import Clock

ATTEMPTS = 4
_BACKOFF_SECONDS = (0.2, 5.0)
# Delay after a 429 without Retry-After; kube-apiserver itself sends 1.
_THROTTLED_SECONDS = 1.0


class RetrySafety(Enum):
    """Whether a second attempt is idempotent if the first was applied after all."""

    READ = "safe: it is a read"
    GUARDED = "safe: a name, a UID or a resourceVersion lets the server refuse the second attempt"
    UNGUARDED = "not safe"


def backoff(rng: random.Random) -> Backoff:
    return Backoff(*_BACKOFF_SECONDS, rng)


def leaves_doubt(error: KubeError) -> bool:
    """Whether a write that failed with this error may have been applied."""
    if isinstance(error, Ambiguous):
        return True
    if not isinstance(error, ServerError):
        return False
    if error.status == 500:
        # InternalError occurs before anything is stored, for example when a webhook fails. Errors of etcd have an empty reason or
        # ServerTimeout, among them writes that timed out half-way. The one exception also has no reason.
        return error.reason != "InternalError" and "more than one PodDisruptionBudget" not in error.message
    # A 503 of the API server itself is definite. Any other, like 502 and 504, comes from a proxy that lost the reply.
    return not (error.status == 503 and error.reason == "ServiceUnavailable")


def seconds_before_repeat(error: KubeError, repeat: RetrySafety, delays: Backoff, rng: random.Random) -> float | None:
    """Seconds to wait before the next attempt, or None if there must be none."""
    if isinstance(error, CredentialsError):
        return None  # a person has to fix a file or a program
    if isinstance(error, Unreachable):
        return delays.next()
    if isinstance(error, TooManyRequests):
        if error.disruption_budget:
            return None  # a real answer, not overload: the controller decides what to do
        asked = _THROTTLED_SECONDS if error.retry_after is None else error.retry_after
        return max(asked, delays.next()) * rng.uniform(1.0, 1.25)  # never earlier than the server asked; jitter spreads
    doubtful = leaves_doubt(error)
    if doubtful and repeat is RetrySafety.UNGUARDED:
        return None
    passing = doubtful or (isinstance(error, ServerError) and (repeat is RetrySafety.READ or error.status == 503))
    if not passing:
        return None
    asked = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
    return max(asked, delays.next())


# Called when a retry was refused: returns the reply that the first attempt would have had, or None if the refusal stands.
Settle = Callable[[ApiError], Awaitable[bytes | None]]

# A lease must be renewed within ten seconds, and the election abandons a call after five.
_URGENT_SECONDS = 4.0
# Leadership is checked before a call, and the next leader may start five seconds after this one must have stopped.
_DESTRUCTIVE_SECONDS = 5.0
# A write without enough time for its reply would only end as Ambiguous.
_SHORTEST_ATTEMPT = 0.1  # fraction of the whole time


class Attempts:
    def __init__(
        self,
        transport: Transport,
        credentials: Credentials,
        limit: RateLimit,
        clock: Clock,
        rng: random.Random,
        *,
        timeout_seconds: float,
    ) -> None:
        self._transport = transport
        self._credentials = credentials
        self._limit = limit
        self._clock = clock
        self._rng = rng
        self._timeout_seconds = timeout_seconds

    async def perform(
        self, call: ApiCall, repeat: RetrySafety, settle: Settle | None = None, *, destructive: bool = False
    ) -> bytes:
        """The body of the successful reply.

        destructive: the checks before this call hold only for a moment, so it does not wait for the rate limit and is not
        retried after a few seconds.
        """
        whole = min(_URGENT_SECONDS, self._timeout_seconds) if call.urgent else self._timeout_seconds
        # Half, so that a dead connection leaves time for a second attempt; all of it if there is none.
        longest = whole if repeat is RetrySafety.UNGUARDED else whole / 2
        delays = backoff(self._rng)
        ahead = call.urgent or destructive
        await self._limit.take(urgent=ahead)
        started = self._clock.monotonic()
        failure: KubeError
        doubt: KubeError | None = None  # an attempt that may have been applied
        renewed = False
        for attempt in range(1, ATTEMPTS + 1):
            left = whole - (self._clock.monotonic() - started)
            if attempt > 1 and left < whole * _SHORTEST_ATTEMPT:
                break  # waiting for the rate limit used up the time
            try:
                return await self._transport.send(call, min(longest, left))
            except KubeError as error:
                failure = error
            if repeat is not RetrySafety.READ and leaves_doubt(failure):
                doubt = failure
            wait = seconds_before_repeat(failure, repeat, delays, self._rng)
            if isinstance(failure, Unauthorized) and not renewed and self._credentials.refused():
                renewed, wait = True, 0.0
            if wait is None or attempt == ATTEMPTS:
                break
            next_at = self._clock.monotonic() - started + wait
            if next_at > whole * (1 - _SHORTEST_ATTEMPT) or (destructive and next_at > _DESTRUCTIVE_SECONDS):
                break
            await self._clock.sleep(wait)
            await self._limit.take(urgent=ahead)
        if doubt is None:
            raise failure
        return await self._resolve(call, doubt, failure, settle)

    @staticmethod
    async def _resolve(call: ApiCall, doubt: KubeError, last: KubeError, settle: Settle | None) -> bytes:
        """Find out from the last reply whether an earlier attempt was applied."""
        if isinstance(last, AlreadyExists | Conflict | NotFound | Invalid):
            try:
                reply = await settle(last) if settle else None
            except KubeError as error:
                raise Ambiguous(f"{last}; cannot read whether an earlier attempt caused this: {error}") from doubt
            if reply is None:
                raise last
            return reply
        if isinstance(doubt, Ambiguous):
            raise doubt
        raise Ambiguous(f"{call.what}: it may have been applied: {doubt}") from doubt
