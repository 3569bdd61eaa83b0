"""What VPSie's refusals mean to a node group. The API says it in words more than in codes."""

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
from plimsoll.providers.vpsie.credentials import Credentials, ReadSecret
from plimsoll.providers.vpsie.http import Call, Exchange, NoReply, NotSent, Reply
from plimsoll.providers.vpsie.replies import Garbled, Grant, as_type, data_of, refusal_in
from plimsoll.providers.vpsie.token import Access, AccessKeeper
from plimsoll.runtime.clock import Clock

# The limit is a hundred a minute: after a minute it has passed for certain.
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


def refusal(
    status: int, message: str, what: str, *, ordering: bool = False, retry_after_seconds: float | None = None
) -> ProviderError:
    """The error that a definite no stands for.

    `what` is what was asked, `message` VPSie's own words. Only an order can fail for quota or stock; elsewhere the same words
    ("resource not found") mean something else.
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


# Calls to the VPSie API: in turn, as often as that is harmless, and honest about what is not known.

T = TypeVar("T")

ATTEMPTS = 3
# VPSie allows a hundred requests in any minute. A bucket passes its burst and a minute's refill within one: 10 + 60 × 1.5.
_BURST = 10
_PER_SECOND = 1.5
# So long a pause that VPSie asks for is waited out; a longer one is the caller's to plan with.
_SHORT_PAUSE_SECONDS = 5.0


class _OtherToken(Exception):
    """401: this token is worth nothing any more."""

    def __init__(self, error: ProviderError) -> None:
        self.error = error
        super().__init__(str(error))


class VpsieApi:
    def __init__(self, read_secret: ReadSecret, clock: Clock, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 (spreads load, hides nothing)
        self._limit = RateLimit(_PER_SECOND, _BURST, clock)
        self._exchange = Exchange(clock)
        self._access = AccessKeeper(read_secret, self._authenticate, clock)
        self._quiet_until = 0.0  # VPSie asked for a pause

    async def close(self) -> None:
        await self._access.close()
        await self._exchange.close()

    async def read(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The reply to a GET. ProviderUnreachable where there is none."""
        return await self._asked(Call("GET", path, params))

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The reply to a POST that changes nothing, or nothing that matters if it is done twice."""
        return await self._asked(Call("POST", path, body=body))

    async def _asked(self, call: Call) -> Any:
        try:
            return await self._repeated(lambda: self._perform(call), NotSent, NoReply)
        except (NotSent, NoReply) as error:
            raise ProviderUnreachable(str(error)) from error

    async def order(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply to a POST that makes something: sent once. AmbiguousOutcome where nobody knows whether it was made."""
        call = Call("POST", path, body=body)
        try:
            return await self._repeated(lambda: self._perform(call, ordering=True), NotSent)
        except NotSent as error:
            raise ProviderUnreachable(str(error)) from error
        except NoReply as error:
            raise AmbiguousOutcome(f"{error}; it may have been carried out") from error

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply to a DELETE, which may be sent again and again. MachineNotFound where VPSie knows of no such thing."""
        call = Call("DELETE", path, body=body)
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

    async def _perform(self, call: Call, *, ordering: bool = False) -> Any:
        """Once, but again where it was certainly not carried out: a short pause was asked for, or the token has gone stale."""
        waited = renewed = False
        access = await self._access.access()
        while True:
            await self._not_before_its_time(str(call))
            await self._limit.take()
            try:
                return self._accepted(await self._exchange.send(call, access), access, str(call), ordering=ordering)
            except Throttled as error:
                if waited or error.retry_after_seconds > _SHORT_PAUSE_SECONDS:
                    raise
                waited = True
            except _OtherToken as refused:
                if renewed:
                    raise Unauthorised(str(refused.error)) from None
                renewed = True
                access = await self._access.after_refusal(access, Unauthorised(str(refused.error)))

    async def _not_before_its_time(self, what: str) -> None:
        left = self._quiet_until - self._clock.monotonic()
        if left > _SHORT_PAUSE_SECONDS:
            raise Throttled(f"{what}: not sent; VPSie asked for a pause, of which {left:.0f} s are left", left)
        if left > 0:
            await self._clock.sleep(left)

    async def _authenticate(self, credentials: Credentials) -> Grant:
        """A new token. Asking twice makes two, which harms nobody."""
        form = {"clientId": credentials.client_id, "clientSecret": credentials.client_secret}
        call = Call("POST", "/auth/from/api", form=form)
        access = Access(credentials, "")

        async def attempt() -> Any:
            await self._not_before_its_time(str(call))
            await self._limit.take()
            return self._accepted(await self._exchange.send(call, access), access, str(call))

        try:
            document = await self._repeated(attempt, NotSent, NoReply)
            grant = as_type(data_of(document), Grant, str(call))
        except (NotSent, NoReply) as error:
            raise ProviderUnreachable(str(error)) from error
        except Garbled:
            grant = Grant()
        except (Throttled, ProviderUnreachable):
            raise
        except (ProviderError, _OtherToken) as error:
            # Whatever the code (some say 400, some 404): VPSie does not know us.
            raise Unauthorised(str(error)) from None
        if not grant.access_token.token:
            raise ProviderUnreachable(f"{call}: the reply holds no token")
        return grant

    def _accepted(self, reply: Reply, access: Access, what: str, *, ordering: bool = False) -> Any:
        """The document of a reply that says yes; every other is raised as what it means."""
        status = reply.status
        code, message = refusal_in(reply.document) or (0, "")
        if status < 300 and reply.is_json and not message:
            return reply.document
        if message and code >= 400:
            status = code  # its own word, where a proxy's, or a plain 200, says less
        message = access.scrub(message or reply.excerpt)
        if 300 <= status < 400:
            raise ProviderError(f"{what}: VPSie answered {status}, a redirect; is the url in the Secret right?")
        if not reply.is_json and status not in (401, 403, 429):
            # Not a word of the API's own. A page that says 404 is what a wrong url gives; it tells nothing of a machine.
            raise NoReply(f"{what}: the reply ({status}) is not one of VPSie's API: {message}")
        error = refusal(status, message, what, ordering=ordering, retry_after_seconds=reply.retry_after_seconds)
        if isinstance(error, Throttled):
            self._quiet_until = self._clock.monotonic() + error.retry_after_seconds
        if status >= 500 and type(error) is ProviderError:
            raise NoReply(str(error))
        if status == 401:
            raise _OtherToken(error)
        raise error
