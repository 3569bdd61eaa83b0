"""The proxy between operators and the API server: passes requests on faithfully, keeps a record, and lets faults strike.

Each run of an operator gets a `Link`: a loopback port of its own and a kubeconfig that points there. A crash cuts the link:
whatever the operator's tasks still say while they are torn down, nothing reaches the server, as after kill -9.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from tests.faults.answers import Reply
from tests.faults.calls import Call, parse
from tests.faults.faults import Cut, Fault
from tests.faults.record import Exchange, Record
from tests.faults.rules import FaultSource, Matches
from tests.faults.upstream import Upstream

# They belong to one connection, not to the message. The length is told anew, the host is another.
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}
)
_NO_DEFAULTS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Link:
    """One operator's way to the API server."""

    def __init__(self, name: str, kubeconfig: Path, token: str) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.token = token  # as whom the API server sees it; empty: as the proxy itself
        self.url = ""
        self.crashed = asyncio.Event()
        self.on_crash: Callable[[], object] = lambda: None  # stops the operator: cancels its task, kills its process
        self.is_cut = False
        self.runner: web.ServerRunner | None = None
        self.under_way: dict[asyncio.BaseTransport, Call | None] = {}  # by connection; None: not yet understood

    def crash(self) -> None:
        self.cut()
        self.on_crash()
        self.crashed.set()

    def cut(self) -> None:
        """From now on nothing passes: open connections are reset, new ones too."""
        self.is_cut = True
        for connection in tuple(self.under_way):
            _reset(connection)

    def drop(self, matches: Matches) -> None:
        """Reset the connections of the calls that are under way and match: how a test opens a gap in a watch."""
        for connection, call in tuple(self.under_way.items()):
            if call is not None and matches(call):
                _reset(connection)


class Proxy:
    """Serves links until it is left; `sources` say which faults strike."""

    def __init__(self, upstream: Upstream, record: Record, sources: Sequence[FaultSource], directory: Path) -> None:
        self.record = record
        self._upstream = upstream
        self._sources = sources
        self._directory = directory
        self._links: list[Link] = []
        self._under_way: set[asyncio.Task[Reply | None]] = set()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream.tls if upstream.tls is not None else True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=_NO_DEFAULTS,
            read_bufsize=2**20,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links:
            link.cut()
            if link.runner is not None:
                await link.runner.cleanup()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._session.close()

    async def link(self, name: str, *, token: str = "") -> Link:
        """A new way to the API server; the name tells its requests apart in the record."""
        link = Link(name, self._directory / f"{name}.kubeconfig", token)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._handle(link, request)

        # A watch whose operator is gone must end at once; writes are shielded from this below.
        link.runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.05)
        await link.runner.setup()
        site = web.TCPSite(link.runner, "127.0.0.1", 0)
        await site.start()
        link.url = f"http://127.0.0.1:{link.runner.addresses[0][1]}"
        link.kubeconfig.write_text(_kubeconfig(link.url))
        self._links.append(link)
        return link

    async def _handle(self, link: Link, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            return web.Response()
        link.under_way[transport] = None
        try:
            if not link.is_cut and (response := await self._serve(link, request, transport)) is not None:
                return response
        except Cut:
            pass
        finally:
            link.under_way.pop(transport, None)
            self.record.touch()
        _reset(transport)
        return web.Response()

    async def _serve(
        self, link: Link, request: web.BaseRequest, transport: asyncio.BaseTransport
    ) -> web.StreamResponse | None:
        """The answer to a request; None (or Cut, in the midst of a watch) when the connection is to be reset."""
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        call = parse(request.method, request.rel_url.path, dict(request.query), body, link.name)
        link.under_way[transport] = call
        exchange = self.record.begin(call)
        faults = [fault for source in self._sources for fault in source.faults(call)]
        exchange.faults = [str(fault) for fault in faults]
        if call.verb == "watch":
            return await self._watch(link, request, exchange, faults)
        reply = await self._exchange_to_the_end(link, request, exchange, faults)
        if reply is None or link.is_cut:
            return None
        exchange.told = reply.status
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)

    async def _exchange_to_the_end(
        self, link: Link, request: web.BaseRequest, exchange: Exchange, faults: Sequence[Fault]
    ) -> Reply | None:
        # A request that is on its way arrives, whether or not the operator still waits for the answer.
        task = asyncio.create_task(self._exchange(link, request, exchange, faults))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _exchange(
        self, link: Link, request: web.BaseRequest, exchange: Exchange, faults: Sequence[Fault]
    ) -> Reply | None:
        """One request and its answer; None when the connection to the operator is to be reset."""
        try:
            call = exchange.call
            for fault in faults:
                if (reply := await fault.before(call, link)) is not None:
                    return reply
            if link.is_cut:
                return None
            async with self._ask(link, request, call, faults) as response:
                reply = Reply(response.status, await response.read(), _passed_on(response.headers))
            exchange.answered = reply.status
            exchange.reply = reply.body if call.writes else b""
            self.record.touch()
            for fault in faults:
                reply = await fault.after(call, reply, link)
        except (Cut, aiohttp.ClientError):
            return None
        else:
            return reply
        finally:
            self.record.end(exchange)

    async def _watch(
        self, link: Link, request: web.BaseRequest, exchange: Exchange, faults: Sequence[Fault]
    ) -> web.StreamResponse:
        call = exchange.call
        try:
            for fault in faults:
                if (reply := await fault.before(call, link)) is not None:
                    exchange.told = reply.status
                    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
            async with self._ask(link, request, call, faults) as response:
                exchange.answered = exchange.told = response.status
                stream = web.StreamResponse(status=response.status, headers=_passed_on(response.headers))
                stream.enable_chunked_encoding()
                await stream.prepare(request)
                self.record.touch()
                async for part in _through(faults, call, response):
                    if link.is_cut:
                        raise Cut
                    await stream.write(part)
                    exchange.events += part.count(b"\n")
                    self.record.touch()
                await stream.write_eof()
                return stream
        except aiohttp.ClientConnectionResetError:
            # The operator went away while it was being told; nobody is left to answer.
            return web.Response()
        except aiohttp.ClientError:
            raise Cut from None
        finally:
            self.record.end(exchange)

    def _ask(
        self, link: Link, request: web.BaseRequest, call: Call, faults: Sequence[Fault]
    ) -> aiohttp.client._RequestContextManager:
        headers = _passed_on(request.headers)
        headers.update(self._upstream.headers())
        if link.token:
            headers["Authorization"] = f"Bearer {link.token}"
        if any(fault.reads_replies for fault in faults):
            headers.pop("Accept-Encoding", None)
        url = URL(self._upstream.url + request.raw_path, encoded=True)
        for fault in faults:
            if (params := fault.ask(call)) is not call.params:
                url = URL(self._upstream.url + request.rel_url.raw_path, encoded=True).with_query(params)
        return self._session.request(
            request.method, url, headers=headers, data=call.body or None, allow_redirects=False
        )


async def _through(faults: Sequence[Fault], call: Call, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The stream as it came where no fault concerns it, else its lines with each fault applied in turn."""
    whole_lines = lines = _lines(response)
    for fault in faults:
        lines = fault.lines(call, lines) or lines
    if lines is whole_lines:
        async for chunk in response.content.iter_any():
            yield chunk
    else:
        async for line in lines:
            yield line


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest: list[bytes] = []
    async for chunk in response.content.iter_any():
        for part in chunk.splitlines(keepends=True):
            rest.append(part)
            if part.endswith(b"\n"):
                yield b"".join(rest)
                rest.clear()
    if rest:
        yield b"".join(rest)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}


def _reset(transport: asyncio.BaseTransport) -> None:
    """Close with a TCP reset, which the other side sees as such and not as a polite end."""
    connection = transport.get_extra_info("socket")
    if connection is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    if isinstance(transport, asyncio.Transport):
        transport.abort()


def _kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "operator", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "operator"}}],
        },
        sort_keys=False,
    )
