"""One HTTP request and its reply: with a time-out, a size limit and a circuit breaker, and clear about whether it was sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from plimsoll.kube.client.proxy import proxy_for
from plimsoll.kube.client.transport import never_repeat, retry_after_seconds
from plimsoll.providers.errors import ProviderUnreachable
from plimsoll.providers.vpsie.token import Access
from plimsoll.runtime.clock import Clock

FAILURES = 5
PAUSE_SECONDS = 30.0


class CircuitBreaker:
    """After `FAILURES` failures in a row no request is sent for `PAUSE_SECONDS`; then one request probes the service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0  # in a row
        self._last = ""
        self._paused_until = 0.0
        self._probing = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Permission to send. Raises ProviderUnreachable while the breaker is open."""
        if self._failures >= FAILURES:
            left = self._paused_until - self._clock.monotonic()
            if left > 0 or self._probing:
                when = f"for {left:.0f} s" if left > 0 else "until another request is answered"
                raise ProviderUnreachable(
                    f"VPSie is not called {when} after {self._failures} failures in a row; the last: {self._last}"
                )
            self._probing = True
        try:
            yield
        finally:
            self._probing = False

    def failed(self, why: str) -> None:
        """No reply, or a server error."""
        self._failures += 1
        self._last = why
        if self._failures >= FAILURES:
            self._paused_until = self._clock.monotonic() + PAUSE_SECONDS

    def answered(self) -> None:
        """Any other reply, also a refusal."""
        self._failures = 0


T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
MAX_REPLY_BYTES = 10 * 1024 * 1024


class NotSent(Exception):
    """There was no connection: nothing was sent."""


class NoReply(Exception):
    """The request was sent and no valid reply came: it may have been carried out."""


class VpsieCall(Struct, frozen=True):
    method: Literal["GET", "POST", "DELETE"]
    path: str
    params: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class VpsieReply(Struct, frozen=True):
    status: int
    document: Any
    is_json: bool
    excerpt: str  # the start of a reply that is not JSON, to recognize its sender
    retry_after_seconds: float | None


class VpsieHttp:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._breaker = CircuitBreaker(clock)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, call: VpsieCall, access: Access) -> VpsieReply:
        with self._breaker.turn():
            try:
                reply = await self._within_time(self._send(call, access))
            except aiohttp.ClientConnectorError as error:
                failure: Exception = NotSent(access.scrub(f"{call}: no connection: {error.os_error}"))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = NoReply(access.scrub(f"{call}: no reply: {str(error) or type(error).__name__}"))
            else:
                if reply.status >= 500:
                    self._breaker.failed(f"{call}: {reply.status}")
                else:
                    self._breaker.answered()
                return reply
            self._breaker.failed(str(failure))
            raise failure

    async def _send(self, call: VpsieCall, access: Access) -> VpsieReply:
        headers = {"Accept": "application/json"}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        url = access.credentials.url
        async with self._opened().request(
            call.method,
            URL(url + call.path),
            params=call.params,
            json=call.body,
            data=call.form,
            headers=headers,
            proxy=proxy_for(url, os.environ),
            # A redirect would carry our token to wherever it says.
            allow_redirects=False,
        ) as response:
            received = bytearray()
            async for chunk in response.content.iter_any():
                received += chunk
                if len(received) > MAX_REPLY_BYTES:
                    raise aiohttp.ClientPayloadError(f"the reply is larger than {MAX_REPLY_BYTES >> 20} MB")
            try:
                document, is_json = msgspec.json.decode(received), True
            except (msgspec.DecodeError, UnicodeDecodeError):
                document, is_json = None, False
            excerpt = " ".join(received[:2000].decode("utf-8", "replace").split())[:300] or "an empty body"
            return VpsieReply(
                response.status, document, is_json, excerpt, retry_after_seconds(response, self._clock.now())
            )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=10),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # the injected clock limits the time
                headers={"User-Agent": "plimsoll"},
                middlewares=(never_repeat,),
            )
        return self._session

    async def _within_time(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        alarm = asyncio.ensure_future(self._clock.sleep(TIMEOUT_SECONDS))
        try:
            await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise TimeoutError(f"not within {TIMEOUT_SECONDS:.0f} s")
        finally:
            for unfinished in (task, alarm):
                unfinished.cancel()
            await asyncio.gather(task, alarm, return_exceptions=True)
