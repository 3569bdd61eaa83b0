"""A transport without a socket: connects a client to an embedded cluster in the same process, in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from plimsoll.kube.client.errors import Unreachable, api_error
from plimsoll.runtime.clock import Clock

if TYPE_CHECKING:
    from plimsoll.kube.client.transport import ApiCall, RequestObserver


class InProcessReply(NamedTuple):
    """The reply of a server: a body, or for a watch the chunks of a stream."""

    status: int
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = None
    retry_after_seconds: float | None = None


# method, path, parameters, body, content type
Serve = Callable[[str, str, Mapping[str, str], bytes, str], Awaitable[InProcessReply]]


class InProcessTransport:
    """A transport for `Client` that loses nothing; tests add faults with a proxy in front of it."""

    def __init__(self, serve: Serve, clock: Clock, observe: RequestObserver | None = None) -> None:
        self._serve = serve
        self._clock = clock
        self._observe = observe or (lambda *_: None)
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    async def send(self, call: ApiCall, timeout_seconds: float) -> bytes:
        del timeout_seconds  # a reply takes no time
        return (await self._reply(call)).body

    @contextlib.asynccontextmanager
    async def stream(self, call: ApiCall, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        del idle_seconds
        reply = await self._reply(call)
        if reply.chunks is None:
            yield _once(reply.body)
            return
        try:
            yield reply.chunks
        finally:
            close = getattr(reply.chunks, "aclose", None)
            if close is not None:
                await close()

    async def _reply(self, call: ApiCall) -> InProcessReply:
        if self._closed:
            raise Unreachable(f"{call.what}: the client is closed")
        started = self._clock.monotonic()
        reply = await self._serve(call.method, call.path, call.params, call.body or b"", call.content_type)
        self._observe(call.verb, call.plural, reply.status, self._clock.monotonic() - started)
        if not 200 <= reply.status < 300:
            raise api_error(reply.status, reply.body, retry_after=reply.retry_after_seconds, request=call.what)
        return reply


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
