"""HTTP/1.1 for one thing: a body comes in, an answer goes out, hundreds of times a second over connections that are kept.

A general server makes a request, a response, streams, headers and timers for each; here that would cost three times what the
decision does, and whatever a question costs is what the others wait for after a moment in which the machine did not run us.
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
_SWEEP_SECONDS = 30.0
_FINISH_SECONDS = 1.0  # of the ten that the whole process has for its end
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Question(Struct, frozen=True):
    method: str
    path: str
    headers: dict[bytes, bytes]  # names in lower case; of several alike the last
    body: bytes
    transport: asyncio.Transport


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = "application/json"


def said(status: int, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


_UNANSWERED = "a question could not be answered"
_FAILED = said(HTTPStatus.INTERNAL_SERVER_ERROR, "it could not be answered; the log tells why")
Later = Callable[[], Awaitable[Answer]]  # to be called, and waited for
Handle = Callable[[Question], Answer | Later]  # at once where it can be: waiting costs a task


@asynccontextmanager
async def answering(
    handle: Handle, host: str, port: int, *, tls: ssl.SSLContext, backlog: int, largest_body: int
) -> AsyncIterator[int]:
    """Listen and answer while the block lasts; yields the port. What is under way at its end has a second."""
    connections: set[_Connection] = set()
    server = await serve(
        lambda: _Connection(handle, connections, largest_body=largest_body), host, port, tls=tls, backlog=backlog
    )
    sweeping = asyncio.create_task(_close_the_idle(connections), name="idle connections")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        sweeping.cancel()
        server.close()
        under_way = [task for one in tuple(connections) if (task := one.finish()) is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=_FINISH_SECONDS)
        for one in tuple(connections):
            one.abort()  # who does not take leave must not hold up the end
        await server.wait_closed()


async def _close_the_idle(connections: set[_Connection]) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        longest = time.monotonic() - _IDLE_SECONDS
        for one in tuple(connections):
            if one.last_heard < longest:
                one.finish()


class _Connection(asyncio.Protocol):
    """One at a time: who sends the next question before it has the answer is read on when it has. A lost connection cancels."""

    def __init__(self, handle: Handle, connections: set[_Connection], *, largest_body: int) -> None:
        self._handle = handle
        self._connections = connections
        self._largest_body = largest_body
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[Question, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._refusal: Answer | None = None
        self.last_heard = time.monotonic()
        self.on_message_begin()

    def finish(self) -> asyncio.Task[None] | None:
        """Answer what was asked already, and nothing after that; what is under way, if anything is."""
        self._closing = True
        if self._task is None and self._transport is not None:
            self._transport.close()
        return self._task

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- from the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream, since a server made it
        self._connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)
        self._closing = True
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self.last_heard = time.monotonic()
        if self._closing:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # refused when its headers were complete
        except httptools.HttpParserError as error:
            self._refusal = said(HTTPStatus.BAD_REQUEST, f"not HTTP/1.1: {error}")
        if self._refusal is not None:
            self._refuse(self._refusal)

    # --- from the parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_size = 0
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
            self._refusal = said(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"headers of more than {_LARGEST_HEAD} bytes"
            )

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            self._refusal = said(HTTPStatus.BAD_REQUEST, "no other protocol is spoken here")
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._largest_body:
            self._refusal = said(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {self._largest_body} bytes")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._refusal is not None or self._closing or self._transport is None:
            return
        path = self._url.partition(b"?")[0].decode("ascii", "replace")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method().decode("ascii")
        question = Question(method, path, self._headers, body, self._transport)
        self._waiting.append((question, self._parser.should_keep_alive()))
        if self._task is None:
            self._answer_waiting()
        else:
            self._transport.pause_reading()

    # --- answering

    def _answer_waiting(self) -> None:
        """One after the other, until one has to be waited for."""
        while self._waiting and self._transport is not None:
            question, keep = self._waiting.popleft()
            try:
                answer = self._handle(question)
            except Exception:
                log.exception(_UNANSWERED, path=question.path)
                answer = _FAILED
            if not isinstance(answer, Answer):
                self._task = asyncio.get_running_loop().create_task(self._answer_later(question, answer, keep=keep))
                return
            self._write(answer, close=self._closing or not keep)
            if self._closing:
                self._transport.close()

    async def _answer_later(self, question: Question, answer: Later, *, keep: bool) -> None:
        try:
            try:
                answered = await answer()
            except Exception:
                log.exception(_UNANSWERED, path=question.path)
                answered = _FAILED
            self._write(answered, close=self._closing or not keep)
        finally:
            self._task = None
        if self._closing and self._transport is not None:
            self._transport.close()
            return
        self._answer_waiting()
        if self._task is None and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _write(self, answer: Answer, *, close: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # In one piece: each write is a record of its own, and a call into the kernel.
        transport.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nDate: %s\r\n%s\r\n%s"
            % (
                answer.status, _phrase(answer.status), answer.content_type.encode(), len(answer.body), _date(),
                b"Connection: close\r\n" if close else b"", answer.body,
            )
        )  # fmt: skip
        if close:
            self._closing = True
            self._waiting.clear()

    def _refuse(self, answer: Answer) -> None:
        """Where the next request begins is not known any more."""
        if self._task is not None:
            self.abort()  # an answer to the one before must not be followed by this one out of turn
            return
        self._write(answer, close=True)
        if self._transport is not None:
            self._transport.close()


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"-"


_told: tuple[int, bytes] = (0, b"")


def _date() -> bytes:
    global _told  # noqa: PLW0603 - one sentence a second, for everyone
    now = int(time.time())
    if _told[0] != now:
        _told = now, formatdate(now, usegmt=True).encode()
    return _told[1]
