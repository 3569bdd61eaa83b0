"""The dashboard over HTTP: the page, the snapshot, the stream of changes and explanations. GET only."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct

from plimsoll.dashboard import gzip_stream
from plimsoll.dashboard.auth import Gate
from plimsoll.dashboard.broadcaster import Broadcaster, StreamClient, TooManyClients
from plimsoll.dashboard.queries import ExplainQueries
from plimsoll.runtime.listen import EVERY_ADDRESS, CannotListenError, listen, port_of

ASSETS = Path(__file__).parent / "assets"
INDEX = "index.html"
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile(Struct, frozen=True):
    content_type: str
    tag: str
    plain: bytes
    compressed: bytes


@cache
def page_files() -> dict[str, PageFile]:
    """The page's files by path below `assets`, read and compressed once. Request paths never reach the disk."""
    return {
        path.relative_to(ASSETS).as_posix(): _read(path, content_type)
        for path in ASSETS.rglob("*")
        if (content_type := _CONTENT_TYPES.get(path.suffix)) is not None
    }


def _read(path: Path, content_type: str) -> PageFile:
    data = path.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return PageFile(content_type, tag, data, gzip.compress(data, mtime=0))


log = structlog.get_logger()

_EVERY_REPLY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "plimsoll",  # otherwise aiohttp sends its version and Python's
}
# Many proxies close a silent stream after a minute, some after thirty seconds.
HEARTBEAT_SECONDS = 15.0
# A client that reads nothing for this long is disconnected.
WRITE_SECONDS = 20.0
# Then the client must reconnect and is authorized again: a revoked permission does not outlive its stream.
LONGEST_STREAM_SECONDS = 600.0
# Socket buffers cost memory per client, so large messages are written in pieces.
_PIECE_BYTES = 64 * 1024
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DashboardServer:
    """Serves inside its `async with` block."""

    def __init__(self, host: str, port: int, broadcaster: Broadcaster, queries: ExplainQueries, gate: Gate) -> None:
        self._host = host
        self._wanted_port = port
        self.broadcaster = broadcaster
        self._queries = queries
        self._gate = gate
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(_add_headers)
        for path, handler in (
            ("/", self._index),
            ("/assets/{path:.+}", self._asset),
            ("/api/v1/snapshot", self._snapshot),
            ("/api/v1/picture", self._snapshot),  # deprecated name; to be removed in the next release
            ("/api/v1/stream", self._stream),
            ("/api/v1/explain/{kind}/{name}", self._explain),
            ("/api/v1/explain/{kind}/{namespace}/{name}", self._explain),
        ):
            app.router.add_get(path, handler, allow_head=False)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)

    @property
    def port(self) -> int:
        return port_of(self._runner)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self._host == EVERY_ADDRESS else f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/"

    async def __aenter__(self) -> Self:
        try:
            await listen(self._runner, self._host, self._wanted_port)
        except OSError as error:
            where = f"[{self._host}]" if ":" in self._host else self._host
            advice = "set dashboard.host and dashboard.port (0 takes any that is free), or dashboard.enabled: false"
            raise CannotListenError(
                f"cannot listen on {where}:{self._wanted_port}: {error.strerror}; {advice}"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.method != "GET":
            raise web.HTTPMethodNotAllowed(request.method, ["GET"], text="the dashboard is read-only: use GET\n")
        await self._gate.admit(request)
        return await handler(request)

    # ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return _file(request, INDEX)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        return _file(request, request.match_info["path"])

    # ── data ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        whole = await self.broadcaster.whole()
        if not _takes_gzip(request):
            return web.Response(body=whole.plain, content_type="application/json")
        body = gzip_stream.gzip_file(await whole.compressed(), whole.plain)
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        # Pages of the previous release do not send the parameter and expect the old event name.
        event = "snapshot" if request.query.get("events") == "snapshot" else "picture"
        client = StreamClient(
            event, disconnect=lambda: request.transport.abort() if request.transport is not None else None
        )
        gzip = _takes_gzip(request)
        try:
            await self.broadcaster.join(client)
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
            if gzip:
                response.headers["Content-Encoding"] = "gzip"
            await response.prepare(request)
            await self._send(client, response, gzip=gzip)
        except TooManyClients:
            raise web.HTTPServiceUnavailable(
                text="too many open dashboards; close one, or try again later\n",
                headers={"Retry-After": "30"},
            ) from None
        except (ConnectionError, TimeoutError) as error:
            log.debug("dashboard client disconnected", error=str(error) or type(error).__name__)
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.broadcaster.leave(client)
        return response

    async def _send(self, client: StreamClient, response: web.StreamResponse, *, gzip: bool) -> None:
        if gzip:
            await response.write(gzip_stream.HEADER)
        until = asyncio.get_running_loop().time() + LONGEST_STREAM_SECONDS
        while asyncio.get_running_loop().time() < until:
            try:
                message = await asyncio.wait_for(client.waiting.get(), HEARTBEAT_SECONDS)
            except TimeoutError:
                message = self.broadcaster.heartbeat()
            data = memoryview(await message.compressed() if gzip else message.plain)
            for start in range(0, len(data), _PIECE_BYTES):
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(data[start : start + _PIECE_BYTES])

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        asked = request.match_info
        try:
            answer = await self._queries.explain(asked["kind"], asked.get("namespace", ""), asked["name"])
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        except LookupError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from None
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _file(request: web.Request, name: str) -> web.StreamResponse:
    found = page_files().get(name)
    if found is None:
        raise web.HTTPNotFound(text="not found\n")
    headers = {
        "Content-Type": found.content_type, "ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
    }  # fmt: skip
    if request.headers.get("If-None-Match") == found.tag:
        return web.Response(status=304, headers=headers)
    if not _takes_gzip(request):
        return web.Response(body=found.plain, headers=headers)
    return web.Response(body=found.compressed, headers={**headers, "Content-Encoding": "gzip"})


def _takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_EVERY_REPLY)
    if request.path.startswith("/api/"):
        response.headers["Cache-Control"] = "no-store"
