"""One call until it is answered: as often as that is harmless, in the time that it has, and honest about what is not known."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from plimsoll.clock import Clock
from plimsoll.kube.credentials import Credentials
from plimsoll.kube.errors import (
    AlreadyExists,
    Ambiguous,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    Unauthorized,
)
from plimsoll.kube.rate_limit import RateLimit
from plimsoll.kube.retry import ATTEMPTS, Repeat, backoff, leaves_doubt, seconds_before_repeat
from plimsoll.kube.transport import Call, Carrier

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
