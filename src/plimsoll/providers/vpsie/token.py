"""The bearer token: requested once for all concurrent callers, renewed five minutes before it expires and when the Secret changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
from msgspec import Struct

from plimsoll.providers.errors import ProviderError, Unauthorised
from plimsoll.providers.vpsie.credentials import ReadSecret, VpsieCredentials, parse_credentials
from plimsoll.providers.vpsie.replies import Grant, parse_vpsie_time
from plimsoll.runtime.clock import Clock

RENEW_BEFORE_SECONDS = 300.0
SECRET_EVERY_SECONDS = 60.0  # how often the Secret is read; a refused token reads it at once
_UNKNOWN_LIFETIME_SECONDS = 3600.0  # if the reply contains no expiry, or one in the past
_REFUSED_SECONDS = 60.0  # refused credentials are not sent again for this long, because accounts get locked

Authenticate: TypeAlias = Callable[[VpsieCredentials], Awaitable[Grant]]

log = structlog.get_logger()


class Access(Struct, frozen=True):
    """The credentials and token of a request."""

    credentials: VpsieCredentials
    token: str
    ends_at: float | None = None  # monotonic; None means never
    renew_at: float | None = None

    def __repr__(self) -> str:
        return f"Access({self.credentials.url}, …)"

    def scrub(self, text: str) -> str:
        return self.credentials.scrub(text, self.token)


class TokenCache:
    def __init__(self, read_secret: ReadSecret, authenticate: Authenticate, clock: Clock) -> None:
        self._read_secret = read_secret
        self._authenticate = authenticate
        self._clock = clock
        self._access: Access | None = None
        self._secret_read_at = 0.0
        self._refused: tuple[VpsieCredentials, float, str] | None = None  # credentials, until when, error
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
            log.warning("cannot renew VPSie token; using the current one", error=str(error))
            return access

    async def after_refusal(self, refused: Access, error: Unauthorised) -> Access:
        """A new token instead of the refused one; raises the refusal if there is none."""
        if self._access is refused:
            self._access = None  # later callers wait for the new one
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
        """One renewal serves all concurrent callers and continues if one of them is cancelled."""
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
        ends = parse_vpsie_time(grant.expires)
        lifetime = (ends - self._clock.now()).total_seconds() if ends else 0.0
        if lifetime <= 0:
            lifetime = _UNKNOWN_LIFETIME_SECONDS
        # A token with a lifetime below ten minutes is renewed after half of it.
        renew_in = max(lifetime - RENEW_BEFORE_SECONDS, lifetime / 2)
        self._access = Access(credentials, grant.token, now + lifetime, now + renew_in)
        return self._access


def _due(at: float | None, now: float) -> bool:
    return at is not None and now >= at
