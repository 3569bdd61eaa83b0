"""The bearer token: obtained once for all who wait, renewed five minutes before it ends, and anew when the Secret changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
from msgspec import Struct

from plimsoll.providers.errors import ProviderError, Unauthorised
from plimsoll.providers.vpsie.credentials import Credentials, ReadSecret, parse_credentials
from plimsoll.providers.vpsie.replies import Grant, time_of
from plimsoll.runtime.clock import Clock

RENEW_BEFORE_SECONDS = 300.0
SECRET_EVERY_SECONDS = 60.0  # how soon a changed Secret is noticed, unless a refusal tells earlier
_UNKNOWN_LIFETIME_SECONDS = 3600.0  # where the reply names no end, or one that has passed by our clock
_REFUSED_SECONDS = 60.0  # credentials that were refused are not shown again so soon: accounts get locked

Authenticate: TypeAlias = Callable[[Credentials], Awaitable[Grant]]

log = structlog.get_logger()


class Access(Struct, frozen=True):
    """What a request is sent with."""

    credentials: Credentials
    token: str
    ends_at: float | None = None  # on the monotonic clock; None: never
    renew_at: float | None = None

    def __repr__(self) -> str:
        return f"Access({self.credentials.url}, …)"

    def scrub(self, text: str) -> str:
        return self.credentials.scrub(text, self.token)


class AccessKeeper:
    def __init__(self, read_secret: ReadSecret, authenticate: Authenticate, clock: Clock) -> None:
        self._read_secret = read_secret
        self._authenticate = authenticate
        self._clock = clock
        self._access: Access | None = None
        self._secret_read_at = 0.0
        self._refused: tuple[Credentials, float, str] | None = None  # who, until when, and what was said
        self._renewal: asyncio.Task[Access] | None = None

    async def access(self) -> Access:
        now = self._clock.monotonic()
        access = self._access
        if access and now < self._secret_read_at + SECRET_EVERY_SECONDS and not _due(access.renew_at, now):
            return access
        try:
            return await self._renewed()
        except ProviderError as error:
            if access is None or self._access is None or _due(access.ends_at, now):
                raise
            log.warning("VPSie access could not be renewed; the present token still holds", why=str(error))
            return access

    async def after_refusal(self, refused: Access, error: Unauthorised) -> Access:
        """Another access than the one that was refused, or the refusal again where there is none."""
        if self._access is refused:
            self._access = None  # those who come later wait for the new one
        access = await self._renewed()
        if access.token == refused.token:
            self._access = None
            raise error
        return access

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    async def _renewed(self) -> Access:
        """One renewal serves all who ask while it runs, and outlives any of them that gives up."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())
        return await asyncio.shield(self._renewal)

    async def _renew(self) -> Access:
        credentials = parse_credentials(await self._read_secret())
        now = self._clock.monotonic()
        self._secret_read_at = now
        access = self._access
        if access and access.credentials == credentials and not _due(access.renew_at, now):
            return access
        if credentials.token:
            self._access = Access(credentials, credentials.token)
            return self._access
        if self._refused and self._refused[0] == credentials and now < self._refused[1]:
            raise Unauthorised(self._refused[2])
        try:
            grant = (await self._authenticate(credentials)).access_token
        except Unauthorised as error:
            self._refused = (credentials, now + _REFUSED_SECONDS, str(error))
            if access and access.credentials == credentials:
                self._access = None
            raise
        ends = time_of(grant.expires)
        lifetime = (ends - self._clock.now()).total_seconds() if ends else 0.0
        if lifetime <= 0:
            lifetime = _UNKNOWN_LIFETIME_SECONDS
        # A token that lives for less than ten minutes is renewed at half its life, not at once.
        renew_in = max(lifetime - RENEW_BEFORE_SECONDS, lifetime / 2)
        self._access = Access(credentials, grant.token, now + lifetime, now + renew_in)
        return self._access


def _due(at: float | None, now: float) -> bool:
    return at is not None and now >= at
