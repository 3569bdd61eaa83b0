"""A minimal HTTP/1.1 server for short requests and responses, hundreds per second over kept-alive connections.

A general server creates request, response, stream, header and timer objects for each request. That would cost three times as
much as the decision, and after a pause of the machine every queued request waits for the cost of those before it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from http import HTTPStatus

import httptools
import structlog
from msgspec import Struct

from plimsoll.runtime.listen import serve

log = structlog.get_logger()

_LARGEST_HEAD = 64 * 1024
_IDLE_SECONDS = 300.0  # an API server keeps up to 25 connections for the next burst
_SWEEP_SECONDS = 1.0
# Nothing that a client sends or leaves unread is unbounded. The API server needs milliseconds for a request, and reads answers.
REQUEST_SECONDS = 10.0  # from the first byte of a request to its last
UNREAD_SECONDS = 10.0  # for which a client may leave its answers unread
HANDSHAKE_SECONDS = 5.0
MAX_CONNECTIONS = (
    2000  # a burst of the API server opens one for each review; beyond, the one that is silent longest is closed
)
MAX_BUFFERED_BYTES = 64 * 1024 * 1024  # of unfinished requests, over all connections
_FINISH_SECONDS = 1.0  # of the ten seconds that the whole process has for its shutdown
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpRequest(Struct, frozen=True):
    method: str
    path: str
    headers: dict[bytes, bytes]  # names in lower case; the last of several with the same name
    body: bytes
    transport: asyncio.Transport


class HttpResponse(Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = "application/json"


def text_response(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


_REQUEST_FAILED = "request failed"
_FAILED = text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the operator")
_BUSY = text_response(HTTPStatus.SERVICE_UNAVAILABLE, "too many unfinished requests; try again")
Deferred = Callable[[], Awaitable[HttpResponse]]  # a response that needs I/O first
Handler = Callable[[HttpRequest], HttpResponse | Deferred]  # immediate if possible: a deferred response costs a task


@asynccontextmanager
async def serve_http(
    handle: Handler, host: str, port: int, *, tls: ssl.SSLContext, backlog: int, largest_body: int
) -> AsyncIterator[int]:
    """Serve while the block runs; yields the port. Requests in progress at its end have one second."""
    connections = _Connections()
    server = await serve(
        lambda: _Connection(handle, connections, largest_body=largest_body), host, port,
        tls=tls, backlog=backlog, handshake_seconds=HANDSHAKE_SECONDS,
    )  # fmt: skip
    sweeping = asyncio.create_task(_close_overdue(connections), name="overdue connections")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        sweeping.cancel()
        server.close()
        under_way = [task for one in tuple(connections) if (task := one.finish()) is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=_FINISH_SECONDS)
        for one in tuple(connections):
            one.abort()  # a client that keeps its connection open must not delay the shutdown
        await server.wait_closed()


async def _close_overdue(connections: _Connections) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        now = time.monotonic()
        for one in tuple(connections):
            if one.overdue(now):
                one.abort()
            elif now - one.last_heard > _IDLE_SECONDS:
                one.finish()


class _Connections(set["_Connection"]):
    """The open connections, and the bytes of their unfinished requests."""

    def __init__(self) -> None:
        super().__init__()
        self.buffered_bytes = 0

    def admit(self, connection: _Connection) -> None:
        """Add a connection. Beyond the limit, close the one that has been silent longest: it is the least likely to be needed."""
        if len(self) >= MAX_CONNECTIONS:
            min(self, key=lambda one: one.last_heard).abort()
        self.add(connection)


class _Connection(asyncio.Protocol):
    """One connection. It handles one request at a time, and a lost connection cancels the request in progress."""

    def __init__(self, handle: Handler, connections: _Connections, *, largest_body: int) -> None:
        self._handle = handle
        self._connections = connections
        self._largest_body = largest_body
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._queued: deque[tuple[HttpRequest, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._refusal: HttpResponse | None = None
        self.last_heard = time.monotonic()
        self._unread_since: float | None = (
            None  # the client does not read its answers: nothing more is answered until it does
        )
        self._body_size = 0
        self.on_message_begin()
        self._begun_at: float | None = (
            None  # of the request that is arriving; a connection may be silent before its first
        )

    def finish(self) -> asyncio.Task[None] | None:
        """Finish the request in progress and close; returns its task, if there is one."""
        self._closing = True
        if self._task is None and self._transport is not None:
            self._transport.close()
        return self._task

    def overdue(self, now: float) -> bool:
        """Whether the client takes too long to send a request, or to read its answers."""
        arriving = (
            self._begun_at is not None and self._task is None and not self._queued
        )  # else it is we who do not read
        late = arriving and now - (self._begun_at or now) > REQUEST_SECONDS
        return late or (self._unread_since is not None and now - self._unread_since > UNREAD_SECONDS)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- from the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream, since a server made it
        self._connections.admit(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)
        self._forget_body()
        self._queued.clear()
        self._closing = True
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._unread_since = time.monotonic()

    def resume_writing(self) -> None:
        self._unread_since = None
        if self._task is None and not self._closing:
            self._handle_queued()
            self._read_on()

    def data_received(self, data: bytes) -> None:
        self.last_heard = time.monotonic()
        if self._closing:
            return
        self._received += len(data)
        if self._begun_at is None:
            self._begun_at = self.last_heard
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # refused when its headers were complete
        except httptools.HttpParserError as error:
            self._refusal = text_response(HTTPStatus.BAD_REQUEST, f"not HTTP/1.1: {error}")
        # The parser reports a header only when it is complete, so one without an end is noticed here.
        if self._in_head and self._received > _LARGEST_HEAD + len(data):
            self._count_head(_LARGEST_HEAD + 1)
        if self._refusal is not None:
            self._refuse(self._refusal)

    # --- from the parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_size = 0
        self._in_head = True
        self._received = 0  # bytes since the request began
        self._begun_at = time.monotonic()
        self._forget_body()

    def _forget_body(self) -> None:
        self._connections.buffered_bytes -= self._body_size
        self._body: list[bytes] = []
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value
        self._count_head(len(name) + len(value))

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > _LARGEST_HEAD:
            self._refusal = text_response(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"headers of more than {_LARGEST_HEAD} bytes"
            )

    def on_headers_complete(self) -> None:
        self._in_head = False
        length = self._headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self._largest_body:
            self._refusal = self._too_large()
        if self._parser.should_upgrade():
            self._refusal = text_response(HTTPStatus.BAD_REQUEST, "protocol upgrades are not supported")
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        if self._refusal is not None:
            return
        self._body_size += len(body)
        self._connections.buffered_bytes += len(body)
        if self._body_size > self._largest_body:
            self._refusal = self._too_large()
        elif self._connections.buffered_bytes > MAX_BUFFERED_BYTES:
            self._refusal = _BUSY
        else:
            self._body.append(body)

    def _too_large(self) -> HttpResponse:
        return text_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {self._largest_body} bytes")

    def on_message_complete(self) -> None:
        if self._refusal is not None or self._closing or self._transport is None:
            return
        self._begun_at = None
        path = self._url.partition(b"?")[0].decode("ascii", "replace")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method().decode("ascii")
        request = HttpRequest(method, path, self._headers, body, self._transport)
        self._forget_body()
        self._queued.append((request, self._parser.should_keep_alive()))
        if self._task is None:
            self._handle_queued()
        if self._queued or self._unread_since is not None:
            self._transport.pause_reading()

    # --- answering

    def _handle_queued(self) -> None:
        """Handle queued requests in order, until one has to be awaited."""
        while self._queued and self._transport is not None and self._unread_since is None:
            request, keep = self._queued.popleft()
            try:
                answer = self._handle(request)
            except Exception:
                log.exception(_REQUEST_FAILED, path=request.path)
                answer = _FAILED
            if not isinstance(answer, HttpResponse):
                self._task = asyncio.get_running_loop().create_task(self._await_deferred(request, answer, keep=keep))
                return
            self._write(answer, close=self._closing or not keep)
            if self._closing:
                self._transport.close()

    async def _await_deferred(self, request: HttpRequest, answer: Deferred, *, keep: bool) -> None:
        try:
            try:
                response = await answer()
            except Exception:
                log.exception(_REQUEST_FAILED, path=request.path)
                response = _FAILED
            self._write(response, close=self._closing or not keep)
        finally:
            self._task = None
        if self._closing and self._transport is not None:
            self._transport.close()
            return
        self._handle_queued()
        self._read_on()

    def _read_on(self) -> None:
        """Read the next request, unless one is in progress or the client does not read its answers."""
        idle = self._task is None and not self._queued and self._unread_since is None
        if idle and self._transport is not None and not self._transport.is_closing():
            if self._begun_at is not None:
                self._begun_at = time.monotonic()
            self._transport.resume_reading()

    def _write(self, answer: HttpResponse, *, close: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # One write: each write is a TLS record and a system call.
        transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nDate: %s\r\n%s\r\n%s"
            % (
                answer.status, _phrase(answer.status), answer.content_type.encode(), len(answer.body), _date(),
                b"Connection: close\r\n" if close else b"", answer.body,
            )
        )  # fmt: skip
        if close:
            self._closing = True
            self._queued.clear()

    def _refuse(self, answer: HttpResponse) -> None:
        """Answer with an error and close: the start of the next request is unknown."""
        if self._task is not None:
            self.abort()  # this response must not overtake the one in progress
            return
        self._write(answer, close=True)
        self._forget_body()
        if self._transport is not None:
            self._transport.close()


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"-"


_cached_date: tuple[int, bytes] = (0, b"")


def _date() -> bytes:
    global _cached_date  # noqa: PLW0603 - formatted once per second for all responses
    now = int(time.time())
    if _cached_date[0] != now:
        _cached_date = now, formatdate(now, usegmt=True).encode()
    return _cached_date[1]
