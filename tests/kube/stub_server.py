"""A server with scripted replies, also such as a real API server does not give on demand: late, none, partial, HTML."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    connection: int  # which TCP connection it came on
    certificate: Mapping[str, Any] | None  # of the client, where it showed one

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Lost:
    """The request is read whole, and the connection closed without an answer."""


@dataclass(frozen=True)
class Silent:
    """The request is read, and never answered."""


@dataclass(frozen=True)
class Chunks:
    """A stream: these chunks, and then its proper end, a broken connection, or silence."""

    chunks: tuple[bytes, ...]
    end: str = "proper"  # or "broken", "silent"


Answer = Reply | Lost | Silent | Chunks
LOST, SILENT = Lost(), Silent()


def ok(document: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(document).encode())


def refusal(
    code: int, reason: str = "", message: str = "no", *, headers: Mapping[str, str] | None = None, **details: Any
) -> Reply:
    status = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    }  # fmt: skip
    return Reply(code, json.dumps(status).encode(), {"Content-Type": "application/json", **(headers or {})})


def configmap(
    name: str = "a", *, uid: str = "u1", version: str = "7", data: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version},
        "data": dict(data or {}),
    }


class StubServer:
    """Answers are used up in the order in which they were given, by method and path."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self._answers: dict[tuple[str, str], list[Answer | Callable[[Seen], Answer]]] = defaultdict(list)
        self._connections: dict[int, int] = {}
        self._stop = asyncio.Event()

    def on(self, method: str, path: str, *answers: Answer | Callable[[Seen], Answer]) -> None:
        self._answers[method, path].extend(answers)

    def calls(self, method: str = "") -> list[str]:
        """What was asked, in order: "GET /api/v1/…"."""
        return [f"{seen.method} {seen.path}" for seen in self.seen if method in ("", seen.method)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        seen = Seen(
            request.method,
            request.path,
            dict(request.query),
            {name: ", ".join(request.headers.getall(name)) for name in request.headers},
            await request.read(),
            self._connections.setdefault(id(transport), len(self._connections)),
            transport.get_extra_info("peercert") or None,
        )
        self.seen.append(seen)
        waiting = self._answers[request.method, request.path]
        if not waiting:
            return web.Response(status=418, text=f"the test has no answer to {request.method} {request.path}")
        answer = waiting.pop(0)
        if callable(answer):
            answer = answer(seen)
        if isinstance(answer, Reply):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        if isinstance(answer, Chunks):
            return await self._stream(request, answer)
        if isinstance(answer, Silent):
            await self._stop.wait()
        transport.abort()
        raise web.HTTPServiceUnavailable

    async def _stream(self, request: web.Request, answer: Chunks) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in answer.chunks:
            await response.write(chunk)
        if answer.end == "silent":
            await self._stop.wait()
        if answer.end == "broken" and request.transport is not None:
            request.transport.abort()
        return response

    @asynccontextmanager
    async def serve(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[StubServer]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            self._stop.set()
            await runner.cleanup()


class SkippingClock:
    """Real time, but for its sleeps: they pass at once, and are written down."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.ahead_seconds = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead_seconds)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ahead_seconds += seconds
        await asyncio.sleep(0)
