"""When a failed call is made again: only where a repeat can do no harm, never at once, and not for ever."""

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
from plimsoll.kube.client.transport import Call, Carrier
from plimsoll.runtime.clock import Clock

ATTEMPTS = 4
_BACKOFF_SECONDS = (0.2, 5.0)
# What a server that sheds load without saying for how long is given; kube-apiserver itself says 1.
_THROTTLED_SECONDS = 1.0


class Repeat(Enum):
    """What a second call would do if the first had been applied after all."""

    READ = "nothing: it was a read"
    GUARDED = "nothing: a name, a UID or a resourceVersion lets the server refuse it, and us compare"
    UNGUARDED = "perhaps harm"


def backoff(rng: random.Random) -> Backoff:
    return Backoff(*_BACKOFF_SECONDS, rng)


def leaves_doubt(error: KubeError) -> bool:
    """May the write that failed so have been applied?"""
    if isinstance(error, Ambiguous):
        return True
    if not isinstance(error, ServerError):
        return False
    if error.status == 500:
        # InternalError is said before anything is stored (a webhook that fails, say). The empty reason and ServerTimeout are
        # how errors of etcd come through, among them writes that timed out half-way. The one exception has no reason either.
        return error.reason != "InternalError" and "more than one PodDisruptionBudget" not in error.message
    # 503 is definite if the API server itself says so. Else it is, like 502 and 504, someone who lost the reply.
    return not (error.status == 503 and error.reason == "ServiceUnavailable")


def seconds_before_repeat(error: KubeError, repeat: Repeat, delays: Backoff, rng: random.Random) -> float | None:
    """How long to wait before the call is made again, or None where it must not or need not be."""
    if isinstance(error, CredentialsError):
        return None  # a file or a program that a person has to mend
    if isinstance(error, Unreachable):
        return delays.next()
    if isinstance(error, TooManyRequests):
        if error.disruption_budget:
            return None  # an answer, not a lack of time: the one who decides must hear it
        asked = _THROTTLED_SECONDS if error.retry_after is None else error.retry_after
        return max(asked, delays.next()) * rng.uniform(1.0, 1.25)  # never earlier than asked, and not all at once
    doubtful = leaves_doubt(error)
    if doubtful and repeat is Repeat.UNGUARDED:
        return None
    passing = doubtful or (isinstance(error, ServerError) and (repeat is Repeat.READ or error.status == 503))
    if not passing:
        return None
    asked = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
    return max(asked, delays.next())


# One call until it is answered: as often as that is harmless, in the time that it has, and honest about what is not known.

# Asked when a repeat was refused: the reply that the first attempt would have had, or None where the refusal stands.
Settle = Callable[[ApiError], Awaitable[bytes | None]]

# A lease has to be renewed within ten seconds, and whoever renews it gives a call up after five.
_URGENT_SECONDS = 4.0
# Leadership is checked before a call is made, and a next leader may begin five seconds after we must have stopped.
_DESTRUCTIVE_SECONDS = 5.0
# A write that is sent with no time left for its answer would only leave doubt.
_SHORTEST_ATTEMPT = 0.1  # of the whole time


class Attempts:
    def __init__(
        self,
        transport: Carrier,
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
        self, call: Call, repeat: Repeat, settle: Settle | None = None, *, destructive: bool = False
    ) -> bytes:
        """The body of the successful reply.

        destructive: what made this call right was true a moment ago. It does not wait in the queue of the rate limit,
        and is not sent again after a few seconds.
        """
        whole = min(_URGENT_SECONDS, self._timeout_seconds) if call.urgent else self._timeout_seconds
        # Half, so that a dead connection leaves time for a second attempt; all, where there will be none.
        longest = whole if repeat is Repeat.UNGUARDED else whole / 2
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
                break  # the rate limit took the time
            try:
                return await self._transport.send(call, min(longest, left))
            except KubeError as error:
                failure = error
            if repeat is not Repeat.READ and leaves_doubt(failure):
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
    async def _resolve(call: Call, doubt: KubeError, last: KubeError, settle: Settle | None) -> bytes:
        """An attempt may have been applied. Does the last answer say whether it was?"""
        if isinstance(last, AlreadyExists | Conflict | NotFound | Invalid):
            try:
                reply = await settle(last) if settle else None
            except KubeError as error:
                raise Ambiguous(f"{last}; whether we did that ourselves could not be read: {error}") from doubt
            if reply is None:
                raise last
            return reply
        if isinstance(doubt, Ambiguous):
            raise doubt
        raise Ambiguous(f"{call.what}: it may have been applied: {doubt}") from doubt
