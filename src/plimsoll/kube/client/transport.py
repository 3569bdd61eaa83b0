"""HTTP transport of the client: connections, time-outs, and the mapping of aiohttp's errors to typed ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from plimsoll import __version__
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import Ambiguous, KubeError, Unreachable, api_error
from plimsoll.runtime.clock import Clock

RequestObserver = Callable[[str, str, int, float], None]  # verb, plural, status (0: no reply), seconds

_HEADERS = {
    "User-Agent": f"plimsoll/{__version__}",
    # The API server would compress replies over 128 KB. On loopback, a page of 500 objects (2.7 MB) then takes 73 ms instead of
    # 25: within a cluster, compression costs more time than it saves.
    "Accept-Encoding": "identity",
}
_CONNECT_SECONDS = 10.0
# Each watch holds one connection; the rest is for calls that wait for a slow server.
_CONNECTIONS = 256
# Below the 90 s after which kube-apiserver closes an idle connection, so that no write uses one that is being closed.
_KEEPALIVE_SECONDS = 60.0
_WATCH_BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True)
class ApiCall:
    """A request, with a description for messages."""

    method: str
    path: str
    verb: str
    what: str  # "patch pods default/web-1"
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    accept: str = "application/json"
    urgent: bool = False

    @property
    def reads(self) -> bool:
        """Whether the request cannot change anything."""
        return self.method == "GET" or "dryRun" in self.params

    @property
    def plural(self) -> str:
        """The kind in the path, as a metric label; it never contains an object's name."""
        parts = self.path.strip("/").split("/")
        if parts[0] not in ("api", "apis"):
            return parts[0]
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        return "/".join(parts[:1] + parts[2:]) or "discovery"


class Transport(Protocol):
    """Sends calls to a server."""

    async def close(self) -> None: ...

    async def send(self, call: ApiCall, timeout_seconds: float) -> bytes: ...

    def stream(self, call: ApiCall, idle_seconds: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class _NoReplyError(aiohttp.ClientError):
    """The connection ended without a reply. aiohttp does not retry on this error."""


async def never_repeat(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from silently resending a DELETE or GET after a broken connection: the client decides about retries."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _NoReplyError(str(error) or "the server closed the connection") from error


def retry_after_seconds(response: aiohttp.ClientResponse, now: datetime) -> float | None:
    """Parse Retry-After: seconds, as Kubernetes sends, or a date, as a proxy may."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None


class HttpTransport:
    def __init__(self, credentials: Credentials, clock: Clock, observe: RequestObserver | None) -> None:
        self._credentials = credentials
        self._clock = clock
        self._observe = observe or (lambda *_: None)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def send(self, call: ApiCall, timeout_seconds: float) -> bytes:
        """The body of a successful reply; raises errors of `plimsoll.kube.client.errors`."""
        # Half, so that a time-out while connecting is never mistaken for one after sending.
        connect_seconds = min(_CONNECT_SECONDS, timeout_seconds / 2)
        # No `total`: if aiohttp's limit and a caller's expire together, aiohttp swallows the caller's.
        limits = aiohttp.ClientTimeout(total=None, connect=connect_seconds)
        headers = await self._headers(call)
        try:
            async with asyncio.timeout(timeout_seconds), self._answer(call, limits, headers) as response:
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._no_reply(call, error) from error

    @contextlib.asynccontextmanager
    async def stream(self, call: ApiCall, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a reply as it arrives; silence of `idle_seconds` ends it."""
        limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=idle_seconds)
        headers = await self._headers(call)
        async with (
            self._answer(call, limits, headers) as response,
            contextlib.aclosing(self._chunks(call, response)) as chunks,
        ):
            yield chunks

    async def _chunks(self, call: ApiCall, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._no_reply(call, error) from error

    async def _headers(self, call: ApiCall) -> CIMultiDict[str]:
        """The headers of a call. Not part of its time limit: a credential plug-in has its own."""
        if self._closed:
            raise Unreachable(f"{call.what}: the client is closed")
        headers = await self._credentials.authorization()
        headers["Content-Type"] = call.content_type
        headers["Accept"] = call.accept
        return headers

    @contextlib.asynccontextmanager
    async def _answer(
        self, call: ApiCall, limits: aiohttp.ClientTimeout, headers: CIMultiDict[str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response, once its headers arrived with a success status."""
        started = self._clock.monotonic()
        status = 0
        try:
            response = await self._session(call.urgent).request(
                call.method,
                URL(self._credentials.server + quote(call.path), encoded=True),
                params=call.params,
                data=call.body,
                headers=headers,
                ssl=self._credentials.ssl_context() or True,
                server_hostname=self._credentials.tls_server_name or None,
                proxy=self._credentials.proxy,
                # A redirect would send our token, and a write, to any address.
                allow_redirects=False,
                timeout=limits,
                read_bufsize=_WATCH_BUFFER_BYTES,
            )
            status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._no_reply(call, error) from error
        finally:
            self._observe(call.verb, call.plural, status, self._clock.monotonic() - started)
        # Close, do not release: releasing would read the rest of a watch, which never ends. A reply that was read completely
        # has already returned its connection.
        with contextlib.closing(response):
            if not 200 <= status < 300:
                raise await self._refusal(call, response)
            yield response

    async def _refusal(self, call: ApiCall, response: aiohttp.ClientResponse) -> KubeError:
        try:
            body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            body = b""
        if 300 <= response.status < 400:
            body = f"a redirect to {response.headers.get('Location', 'nowhere')}".encode()
        return api_error(
            response.status, body, retry_after=retry_after_seconds(response, self._clock.now()), request=call.what
        )

    def _no_reply(self, call: ApiCall, error: BaseException) -> KubeError:
        server = self._credentials.server
        why = _reason(error)
        never_sent = (
            aiohttp.ClientConnectorError,  # refused, no route, no such host, a certificate that does not hold
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientHttpProxyError,
        )
        if isinstance(error, never_sent):
            return Unreachable(f"{call.what}: no connection to {server}: {why}")
        if isinstance(error, TimeoutError):
            why = "no answer in time"
        if call.reads:
            return Unreachable(f"{call.what}: no reply from {server}: {why}")
        # Even if the connection broke at the first byte, the server may have read the request.
        return Ambiguous(f"{call.what}: sent to {server}, but the reply was lost: {why}; it may have been applied")

    def _session(self, urgent: bool) -> aiohttp.ClientSession:
        """The session for ordinary or for urgent calls, which have their own connections.

        When the network path dies silently, each pooled connection costs a call its time-out before a new one is opened. With a
        pool of fifty, a lease would expire; with its own pool, the second attempt already uses a new connection.
        """
        if urgent not in self._sessions:
            self._sessions[urgent] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEEPALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                middlewares=(never_repeat,),
            )
        return self._sessions[urgent]


def _reason(error: BaseException) -> str:
    """The cause of an error, without aiohttp's own text, which repeats the address and prints the TLS context object."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    return str(error) or type(error).__name__
