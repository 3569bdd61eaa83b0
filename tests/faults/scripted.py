"""A server that says what a test tells it to: what the proxy makes of it can then be compared byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.faults.upstream import Upstream


class ScriptedServer:
    """Answers each path with the body it was given, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Mapping[str, str], bytes]] = []  # method, path with query, headers, body
        self.replies: dict[str, tuple[int, Mapping[str, str], bytes]] = {}  # by path
        self.feeds: dict[str, asyncio.Queue[bytes | None]] = {}  # watches, by path; None ends the stream
        self.watch_ended = asyncio.Event()
        self._runner = web.ServerRunner(web.Server(self._handle, handler_cancellation=True), shutdown_timeout=0.05)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @property
    def upstream(self) -> Upstream:
        return Upstream(f"http://127.0.0.1:{self._runner.addresses[0][1]}", token="of-the-proxy")

    def answer(self, path: str, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.replies[path] = (status, headers or {"Content-Type": "application/json"}, body)

    def feed(self, path: str) -> asyncio.Queue[bytes | None]:
        return self.feeds.setdefault(path, asyncio.Queue())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        self.asked.append((request.method, request.raw_path, dict(request.headers), body))
        path = request.rel_url.path
        if request.query.get("watch"):
            return await self._stream(request, self.feed(path))
        status, headers, reply = self.replies.get(path, (404, {}, b"{}"))
        return web.Response(status=status, headers=headers, body=reply)

    async def _stream(self, request: web.BaseRequest, feed: asyncio.Queue[bytes | None]) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        stream.enable_chunked_encoding()
        await stream.prepare(request)
        try:
            while (part := await feed.get()) is not None:
                await stream.write(part)
            await stream.write_eof()
        finally:
            self.watch_ended.set()
        return stream


def event(kind: str, name: str, version: int, **fields: object) -> bytes:
    """One line of a watch, in the server's own layout."""
    found = {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}, **fields}}
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"
