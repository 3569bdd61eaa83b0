"""The small HTTP server for admission reviews: what it tolerates from clients, and how it shuts down."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from plimsoll.webhook import http_server
from plimsoll.webhook.certificates import serving_context
from plimsoll.webhook.http_server import Deferred, Handler, HttpRequest, HttpResponse, serve_http
from tests.eventually import eventually
from tests.webhook.test_admission_handler import AUTHORITY, CERTIFICATE, KEY

LARGEST_BODY = 100_000


class Line:
    """A connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def hear(self) -> tuple[int, dict[str, str], bytes]:
        """One answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.rstrip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(status.split()[1]), headers, await self._reader.readexactly(int(headers.get("content-length", "0")))

    async def body(self) -> bytes:
        return (await self.hear())[2]

    async def closed(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return await self._reader.read() == b""
        return True

    def leave(self) -> None:
        self._writer.close()


async def echo(question: HttpRequest) -> HttpResponse:
    return echo_at_once(question)


def echo_at_once(question: HttpRequest) -> HttpResponse:
    return HttpResponse(200, f"{question.method} {question.path} ".encode() + question.body)


Waiting = Callable[[HttpRequest], Awaitable[HttpResponse]]


def waited_for(handle: Waiting) -> Handler:
    return lambda question: partial(handle, question)


@asynccontextmanager
async def lines(
    waiting: Waiting = echo, count: int = 1, *, at_once: Handler | None = None
) -> AsyncIterator[list[Line]]:
    handle = at_once or waited_for(waiting)
    tls = ssl.create_default_context(cadata=AUTHORITY.decode())
    made: list[Line] = []
    try:
        async with serve_http(
            handle, "127.0.0.1", 0, tls=serving_context(CERTIFICATE, KEY), backlog=10, largest_body=LARGEST_BODY
        ) as port:
            made += [Line(*await asyncio.open_connection("127.0.0.1", port, ssl=tls)) for _ in range(count)]
            yield made
    finally:
        for line in made:
            line.leave()


def post(body: bytes, *headers: str, version: str = "1.1", path: str = "/x?timeout=2s") -> bytes:
    head = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def test_one_after_the_other_over_the_same_connection():
    async with lines() as [line]:
        for number in range(3):
            line.say(post(b"%d" % number))
            status, headers, body = await line.hear()
            assert (status, body) == (200, b"POST /x %d" % number)
            assert headers["content-type"] == "application/json"
            assert headers["date"].endswith(" gmt")
            assert "connection" not in headers


async def test_a_question_may_come_in_pieces():
    async with lines() as [line]:
        for piece in (byte.to_bytes() for byte in post(b"pieces")):
            line.say(piece)
            await asyncio.sleep(0)
        assert await line.body() == b"POST /x pieces"


async def test_a_body_in_chunks():
    async with lines() as [line]:
        line.say(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert await line.body() == b"POST /x abcde"


async def test_several_questions_at_once_are_answered_in_their_order():
    arrived: list[bytes] = []
    more = asyncio.Event()

    async def slow(question: HttpRequest) -> HttpResponse:
        arrived.append(question.body)
        await more.wait()
        return await echo(question)

    async with lines(slow) as [line]:
        line.say(post(b"first") + post(b"second") + post(b"third"))
        await eventually(lambda: arrived == [b"first"])
        more.set()
        assert [await line.body() for _ in range(3)] == [b"POST /x first", b"POST /x second", b"POST /x third"]
        line.say(post(b"fourth"))
        assert await line.body() == b"POST /x fourth"


async def test_who_waits_to_be_told_to_go_on_is_told():
    async with lines() as [line]:
        head, _, body = post(b"patient", "Expect: 100-continue").partition(b"\r\n\r\n")
        line.say(head + b"\r\n\r\n")
        assert (await line.hear())[0] == 100
        line.say(body)
        assert await line.body() == b"POST /x patient"


@pytest.mark.parametrize("last", [post(b"", "Connection: close"), post(b"", version="1.0")])
async def test_the_connection_is_closed_where_the_other_wants_that(last: bytes):
    async with lines() as [line]:
        line.say(last)
        status, headers, _ = await line.hear()
        assert (status, headers["connection"]) == (200, "close")
        assert await line.closed()


@pytest.mark.parametrize(
    ("nonsense", "status", "told"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", 400, "not HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 400, "protocol upgrades"),
        (post(b"x" * (LARGEST_BODY + 1)), 413, "a body of more than 100000 bytes"),
        (post(b"", *(f"X-{n}: {'y' * 1000}" for n in range(80))), 431, "headers of more than 65536 bytes"),
        (b"POST /x HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, "not HTTP/1.1"),
        (b"POST /x HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 400, "not HTTP/1.1"),
    ],
)
async def test_nonsense_is_refused_and_ends_the_connection(nonsense: bytes, status: int, told: str):
    async with lines(count=2) as [line, other]:
        line.say(nonsense)
        got, headers, body = await line.hear()
        assert (got, headers["connection"]) == (status, "close")
        assert told in body.decode()
        assert await line.closed()
        other.say(post(b"unharmed"))
        assert await other.body() == b"POST /x unharmed"


async def test_a_question_that_cannot_be_answered_harms_no_other():
    async def fails(question: HttpRequest) -> HttpResponse:
        if question.body == b"bad":
            raise RuntimeError("no")
        return await echo(question)

    async with lines(fails) as [line]:
        line.say(post(b"bad"))
        assert (await line.hear())[0] == 500
        line.say(post(b"good"))
        assert await line.body() == b"POST /x good"


async def test_who_leaves_is_not_answered_any_more():
    asked, ended = asyncio.Event(), asyncio.Event()

    async def never(_: HttpRequest) -> HttpResponse:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with lines(never) as [line]:
        line.say(post(b""))
        await asked.wait()
        line.leave()
        await ended.wait()


async def test_at_the_end_what_is_under_way_is_answered_and_who_only_keeps_the_line_is_sent_away():
    asked, more = asyncio.Event(), asyncio.Event()

    async def slow(question: HttpRequest) -> HttpResponse:
        asked.set()
        await more.wait()
        return await echo(question)

    async with lines(slow, count=3) as [busy, idle, half]:
        busy.say(post(b"last"))
        half.say(post(b"never finished")[:-3])
        await asked.wait()
        asyncio.get_running_loop().call_soon(more.set)
    status, headers, body = await busy.hear()
    assert (status, headers["connection"], body) == (200, "close", b"POST /x last")
    for line in (busy, idle, half):
        assert await line.closed()


async def test_what_takes_too_long_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_server, "_FINISH_SECONDS", 0.01)
    asked = asyncio.Event()

    async def never(_: HttpRequest) -> HttpResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with lines(never) as [line]:
        line.say(post(b""))
        await asked.wait()
    assert await line.closed()


async def test_a_line_on_which_nothing_is_said_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_server, "_IDLE_SECONDS", 0.0)
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.01)
    async with lines() as [line]:
        assert await line.closed()


async def test_what_needs_no_waiting_is_answered_at_once_and_in_order():
    async with lines(at_once=echo_at_once) as [line]:
        line.say(post(b"first") + post(b"second"))
        assert [await line.body() for _ in range(2)] == [b"POST /x first", b"POST /x second"]
        line.say(post(b"last", "Connection: close") + post(b"too much"))
        _, headers, body = await line.hear()
        assert (headers["connection"], body) == ("close", b"POST /x last")
        assert await line.closed()


async def test_who_needs_no_waiting_waits_for_those_who_do():
    more = asyncio.Event()

    async def slow(question: HttpRequest) -> HttpResponse:
        await more.wait()
        return await echo(question)

    def mixed(question: HttpRequest) -> HttpResponse | Deferred:
        return partial(slow, question) if question.body == b"slow" else echo_at_once(question)

    async with lines(at_once=mixed) as [line]:
        line.say(post(b"quick") + post(b"slow") + post(b"behind it") + post(b"slow"))
        assert await line.body() == b"POST /x quick"
        more.set()
        assert [await line.body() for _ in range(3)] == [b"POST /x slow", b"POST /x behind it", b"POST /x slow"]
        line.say(post(b"later"))
        assert await line.body() == b"POST /x later"


async def test_what_fails_at_once_harms_no_other():
    def fails(question: HttpRequest) -> HttpResponse:
        if question.body == b"bad":
            raise RuntimeError("no")
        return echo_at_once(question)

    async with lines(at_once=fails) as [line]:
        line.say(post(b"bad") + post(b"good"))
        assert (await line.hear())[0] == 500
        assert await line.body() == b"POST /x good"
