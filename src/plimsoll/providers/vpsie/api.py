"""Calls to the VPSie API: rate limited, retried where that is safe, with typed errors.

The API explains a refusal by its message rather than by a code, so errors are classified by words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from plimsoll.kube.backoff import Backoff
from plimsoll.kube.client.rate_limit import RateLimit
from plimsoll.providers.errors import (
    AmbiguousOutcome,
    MachineNotFound,
    OfferingUnavailable,
    ProviderError,
    ProviderUnreachable,
    QuotaExceeded,
    Throttled,
    Unauthorised,
)
from plimsoll.providers.vpsie.credentials import ReadSecret, VpsieCredentials
from plimsoll.providers.vpsie.http import NoReply, NotSent, VpsieCall, VpsieHttp, VpsieReply
from plimsoll.providers.vpsie.replies import Grant, UnexpectedReply, as_type, data_of, refusal_of
from plimsoll.providers.vpsie.token import Access, TokenCache
from plimsoll.runtime.clock import Clock

# VPSie allows 100 requests per minute, so after a minute the limit no longer applies.
THROTTLED_SECONDS = 60.0

_THROTTLED = re.compile(r"rate.?limit|too many requests|throttl", re.IGNORECASE)
_QUOTA = re.compile(
    r"quota|(limit|maximum)\b.*\b(reached|exceed|allowed)|(reached|exceed)\w*\b.*\b(limit|maximum)"
    r"|insufficient (funds|balance|credit)|not enough (funds|balance|credit)|payment required",
    re.IGNORECASE,
)
_UNAVAILABLE = re.compile(
    r"out of stock|sold out|no capacity|insufficient (capacity|resources)|not enough (capacity|resources)"
    r"|(offering|plan|package|size|datacenter|data center|resource|instance type)\w*\b.*"
    r"\b(not available|unavailable|not found|does not exist|invalid|disabled)",
    re.IGNORECASE,
)


def refusal_error(
    status: int, message: str, what: str, *, ordering: bool = False, retry_after_seconds: float | None = None
) -> ProviderError:
    """The error for a reply that refuses the request `what` with VPSie's `message`.

    Only an order can fail because of quota or stock; elsewhere the same words ("resource not found") mean something else.
    """
    text = f"{what}: VPSie answered {status}: {message}"
    if status == 429 or (status < 500 and _THROTTLED.search(message)):
        seconds = THROTTLED_SECONDS if retry_after_seconds is None else retry_after_seconds
        return Throttled(text, seconds)
    if status == 401:
        return Unauthorised(text)
    if ordering and (status == 402 or _QUOTA.search(message)):
        return QuotaExceeded(text)
    if ordering and _UNAVAILABLE.search(message):
        return OfferingUnavailable(text)
    if status == 403:
        return Unauthorised(text)
    if status == 404:
        return MachineNotFound(text)
    return ProviderError(text)


T = TypeVar("T")

ATTEMPTS = 3
# VPSie allows 100 requests per minute. A token bucket lets its burst and one minute's refill pass: 10 + 60 × 1.5.
_BURST = 10
_PER_SECOND = 1.5
# The longest requested pause that a call waits for; for a longer one it raises Throttled.
_SHORT_PAUSE_SECONDS = 5.0


class _TokenRefused(Exception):
    """401: the token is not valid any more."""

    def __init__(self, error: ProviderError) -> None:
        self.error = error
        super().__init__(str(error))


class VpsieApi:
    def __init__(self, read_secret: ReadSecret, clock: Clock, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 (spreads load, hides nothing)
        self._limit = RateLimit(_PER_SECOND, _BURST, clock)
        self._exchange = VpsieHttp(clock)
        self._access = TokenCache(read_secret, self._authenticate, clock)
        self._quiet_until = 0.0  # monotonic; VPSie requested a pause until then

    async def close(self) -> None:
        await self._access.close()
        await self._exchange.close()

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The reply to a GET. Raises ProviderUnreachable if there is none."""
        return await self._asked(VpsieCall("GET", path, params))

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The reply to a POST that can safely be repeated."""
        return await self._asked(VpsieCall("POST", path, body=body))

    async def _asked(self, call: VpsieCall) -> Any:
        try:
            return await self._repeated(lambda: self._perform(call), NotSent, NoReply)
        except (NotSent, NoReply) as error:
            raise ProviderUnreachable(str(error)) from error

    async def order(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply to a POST that creates something; sent once. Raises AmbiguousOutcome if its outcome is unknown."""
        call = VpsieCall("POST", path, body=body)
        try:
            return await self._repeated(lambda: self._perform(call, ordering=True), NotSent)
        except NotSent as error:
            raise ProviderUnreachable(str(error)) from error
        except NoReply as error:
            raise AmbiguousOutcome(f"{error}; it may have been carried out") from error

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply to a DELETE, which can safely be repeated. Raises MachineNotFound if the object does not exist."""
        call = VpsieCall("DELETE", path, body=body)
        try:
            return await self._repeated(lambda: self._perform(call), NotSent, NoReply)
        except NotSent as error:
            raise ProviderUnreachable(str(error)) from error
        except NoReply as error:
            raise AmbiguousOutcome(f"{error}; it may have been carried out") from error

    async def _repeated(self, attempt: Callable[[], Awaitable[T]], *harmless: type[Exception]) -> T:
        delays = Backoff(0.5, 8, self._rng)
        for _ in range(ATTEMPTS - 1):
            try:
                return await attempt()
            except harmless:
                await self._clock.sleep(delays.next())
        return await attempt()

    async def _perform(self, call: VpsieCall, *, ordering: bool = False) -> Any:
        """Send once; again if it was certainly not carried out because of a short pause or an expired token."""
        waited = renewed = False
        access = await self._access.access()
        while True:
            await self._respect_pause(str(call))
            await self._limit.take()
            try:
                return self._accepted(await self._exchange.send(call, access), access, str(call), ordering=ordering)
            except Throttled as error:
                if waited or error.retry_after_seconds > _SHORT_PAUSE_SECONDS:
                    raise
                waited = True
            except _TokenRefused as refused:
                if renewed:
                    raise Unauthorised(str(refused.error)) from None
                renewed = True
                access = await self._access.after_refusal(access, Unauthorised(str(refused.error)))

    async def _respect_pause(self, what: str) -> None:
        left = self._quiet_until - self._clock.monotonic()
        if left > _SHORT_PAUSE_SECONDS:
            raise Throttled(f"{what}: not sent; VPSie requested a pause that lasts another {left:.0f} s", left)
        if left > 0:
            await self._clock.sleep(left)

    async def _authenticate(self, credentials: VpsieCredentials) -> Grant:
        """A new token. A repeated request creates a second token, which is harmless."""
        form = {"clientId": credentials.client_id, "clientSecret": credentials.client_secret}
        call = VpsieCall("POST", "/auth/from/api", form=form)
        access = Access(credentials, "")

        async def attempt() -> Any:
            await self._respect_pause(str(call))
            await self._limit.take()
            return self._accepted(await self._exchange.send(call, access), access, str(call))

        try:
            document = await self._repeated(attempt, NotSent, NoReply)
            grant = as_type(data_of(document), Grant, str(call))
        except (NotSent, NoReply) as error:
            raise ProviderUnreachable(str(error)) from error
        except UnexpectedReply:
            grant = Grant()
        except (Throttled, ProviderUnreachable):
            raise
        except (ProviderError, _TokenRefused) as error:
            # Whatever the status (400 and 404 occur): VPSie rejects the credentials.
            raise Unauthorised(str(error)) from None
        if not grant.access_token.token:
            raise ProviderUnreachable(f"{call}: the reply contains no token")
        return grant

    def _accepted(self, reply: VpsieReply, access: Access, what: str, *, ordering: bool = False) -> Any:
        """The document of a successful reply; raises the matching error for every other."""
        status = reply.status
        code, message = refusal_of(reply.document) or (0, "")
        if status < 300 and reply.is_json and not message:
            return reply.document
        if message and code >= 400:
            status = code  # the code in the document is more specific than the HTTP status
        message = access.scrub(message or reply.excerpt)
        if 300 <= status < 400:
            raise ProviderError(f"{what}: VPSie answered {status}, a redirect; is the url in the Secret right?")
        if not reply.is_json and status not in (401, 403, 429):
            # Not a reply of the API. A 404 page of a wrong url says nothing about a machine.
            raise NoReply(f"{what}: the reply ({status}) is not from the VPSie API: {message}")
        error = refusal_error(status, message, what, ordering=ordering, retry_after_seconds=reply.retry_after_seconds)
        if isinstance(error, Throttled):
            self._quiet_until = self._clock.monotonic() + error.retry_after_seconds
        if status >= 500 and type(error) is ProviderError:
            raise NoReply(str(error))
        if status == 401:
            raise _TokenRefused(error)
        raise error
