"""What a client sends, leaves unsent or leaves unread costs the webhook little, and honest clients nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.controllers.placement.admission.classify import LiveReadKind
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Counter
from plimsoll.webhook import http_server, live_reads
from plimsoll.webhook.admission_handler import AdmissionHandler
from plimsoll.webhook.certificates import serving_context
from plimsoll.webhook.http_server import Handler, HttpRequest, HttpResponse, serve_http
from plimsoll.webhook.live_reads import LiveReads, ReadResult
from tests.clocks import StandingClock
from tests.eventually import eventually
from tests.webhook.test_admission_handler import AUTHORITY, CERTIFICATE, KEY

ASK = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def fine(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, b"fine: " + request.body[:10])


class Server:
    def __init__(self, port: int) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cadata=AUTHORITY.decode())
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        self._writers.append(writer)
        return reader, writer

    async def answers_honest_clients(self) -> bool:
        reader, writer = await self.connect()
        writer.write(ASK)
        return (await reader.readuntil(b"fine: hi")).startswith(b"HTTP/1.1 200")

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def serving(handle: Handler = fine, largest_body: int = 100_000) -> AsyncIterator[Server]:
    tls = serving_context(CERTIFICATE, KEY)
    async with serve_http(handle, "127.0.0.1", 0, tls=tls, backlog=64, largest_body=largest_body) as port:
        server = Server(port)
        try:
            yield server
        finally:
            server.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            pass
    return True


async def test_answers_that_are_never_read_are_not_made(monkeypatch: pytest.MonkeyPatch):
    """20 s of pipelined requests took 1 GB and the lease."""
    monkeypatch.setattr(http_server, "UNREAD_SECONDS", 1.0)
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.05)
    handled = 0

    def large(request: HttpRequest) -> HttpResponse:
        nonlocal handled
        handled += 1
        return fine(request) if request.path == "/honest" else HttpResponse(200, b"x" * 10_000)

    async with serving(large) as server:
        reader, writer = await server.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                writer.write(ASK * 100)
                await asyncio.sleep(0.005)
        assert 0 < handled < 5000, f"{handled} of 20,000 answers were made for nobody"
        honest_reader, honest_writer = await server.connect()
        honest_writer.write(ASK.replace(b"/x", b"/honest"))
        await honest_reader.readuntil(b"fine: hi")
        await eventually(lambda: writer.transport.is_closing() or _broken(writer), "the connection is closed")


def _broken(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"x")
    return writer.transport.is_closing()


async def test_headers_without_end_are_refused():
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(b"POST /x HTTP/1.1\r\nX-Endless: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"a" * 65536)
                await asyncio.wait_for(writer.drain(), 5)
        with contextlib.suppress(ConnectionError):
            assert b" 431 " in await reader.read(65536)
        assert await server.answers_honest_clients()


@pytest.mark.parametrize("sent", [b"POST /x HTT", b"POST /x HTTP/1.1\r\nContent-Length: 50\r\n\r\nunfinished"])
async def test_a_request_that_does_not_come_to_its_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.05)
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(sent)
        idle_reader, idle_writer = await server.connect()
        assert await asyncio.wait_for(is_closed(reader), 10)
        idle_writer.write(ASK)
        assert await idle_reader.readuntil(b"fine: hi"), "a connection without a request may stay"


async def test_unfinished_bodies_have_a_budget_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_server, "MAX_BUFFERED_BYTES", 150_000)
    async with serving() as server:
        refused = 0
        streams = [await server.connect() for _ in range(4)]
        for reader, writer in streams:
            writer.write(b"POST /x HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" + b"y" * 80_000)
            with contextlib.suppress(TimeoutError, ConnectionError):
                refused += b" 503 " in await asyncio.wait_for(reader.read(1000), 0.5)
        assert refused >= 2
        for _, writer in streams:
            writer.transport.abort()
        for _ in range(20):  # what was buffered is given back
            reader, writer = await server.connect()
            writer.write(b"POST /x HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" + b"y" * 90_000)
            assert await reader.readuntil(b"fine: yyyyyyyyyy")


async def test_a_body_that_is_announced_too_large_is_refused_at_once():
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(b"POST /x HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n")
        assert b" 413 " in await reader.read(1000) or await is_closed(reader)
        assert await server.answers_honest_clients()


async def test_more_connections_than_allowed_cost_the_ones_that_are_silent_longest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 5)
    async with serving() as server:
        streams = [await server.connect() for _ in range(9)]
        assert await server.answers_honest_clients()
        assert await asyncio.wait_for(is_closed(streams[0][0]), 10)


def handler(counted: list[Counter]) -> AdmissionHandler:
    unused: Any = SimpleNamespace(any_replica_can_answer=lambda _: True)
    return AdmissionHandler(
        unused, unused, RealClock(), look_seconds=1, leading=lambda: True, forwarding=None, count=counted.append
    )


def test_nesting_without_end_is_refused_in_a_sentence():
    counted: list[Counter] = []
    deep = b'{"request":{"uid":"u","object":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}}"
    with pytest.raises(ValueError, match="not an AdmissionReview of a pod"):
        handler(counted).begin(deep)
    assert [one.labels["result"] for one in counted] == ["unreadable"]


def test_labels_of_metrics_never_come_from_a_request():
    counted: list[Counter] = []
    gone = handler(counted)
    for number in range(50):
        body = {"request": {"uid": "u", "operation": f"op-{number}", "object": {"metadata": {"name": "p"}}}}
        with contextlib.suppress(Exception):
            gone.begin(json.dumps(body).encode(), client_gone=lambda: True)
    assert counted
    assert {one.labels["operation"] for one in counted} == {"unknown"}


async def test_reads_for_invented_owners_have_a_budget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_reads, "READ_BURST", 20)
    clock, counted = StandingClock(), list[tuple[str, str]]()
    reads = LiveReads(
        cast("Any", None),
        cast("Any", None),
        clock,
        seconds=1.0,
        counted=lambda what, result: counted.append((what, result)),
    )

    async def read(_: Any) -> bool:
        return True

    monkeypatch.setattr(reads, "_read", read)

    async def ask(number: int) -> ReadResult:
        owner = SimpleNamespace(uid=f"u{number}", name="x", kind="ReplicaSet")
        needed: Any = SimpleNamespace(what=LiveReadKind.OWNERS, owner=owner, namespace="default", known=None)
        return await reads.look(needed, since=clock.monotonic(), deadline=clock.monotonic() + 1)

    results = [await ask(number) for number in range(100)]
    assert results.count(ReadResult.FRESH) == 20
    assert results.count(ReadResult.FAILED) == 80
    assert [result for _, result in counted].count("over-budget") == 80
    clock.push(1.0)
    again = [await ask(number) for number in range(200, 300)]
    assert again.count(ReadResult.FRESH) == 20, "the bucket is full again: no debt was left behind"
