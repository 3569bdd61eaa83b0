"""The fault transport: one operator process's connection to the API server, with injected faults.

Faults are those that the API allows: a request that never arrives, a reply that is lost, an error status, a watch that ends. Events
inside a watch stream are never dropped. `World` builds one per operator process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from random import Random
from typing import Protocol

import msgspec
from msgspec import Struct

from plimsoll.kube.client.errors import Ambiguous, Unreachable
from plimsoll.kube.client.in_process import InProcessReply


class FaultRates(Struct, frozen=True):
    """The probability of each fault per request."""

    lost_calls: float = 0.0
    lost_answers: float = 0.0
    refusals: float = 0.0  # 429, 500, 503
    conflicts: float = 0.0  # 409 to a write that was not applied
    broken_watches: float = 0.0  # per chunk of a watch stream

    @property
    def any(self) -> bool:
        return any((self.lost_calls, self.lost_answers, self.refusals, self.conflicts, self.broken_watches))


NO_FAULTS = FaultRates()


class RequestHandler(Protocol):
    def __call__(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str, *, user_agent: str
    ) -> Awaitable[InProcessReply]: ...


class ReplyListener(Protocol):
    """Receives every reply as the process receives it; status 0: the reply was lost."""

    def __call__(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None: ...


class FaultTransport:
    def __init__(self, server: RequestHandler, who: str, rng: Random, listener: ReplyListener) -> None:
        self.who = who
        self.faults = NO_FAULTS
        self._server = server
        self._rng = rng
        self._listener = listener
        self._pauses_reads = True
        self._open = asyncio.Event()
        self._open.set()
        self._disconnected = False

    def pause(self, *, reads: bool = True) -> None:
        """Delay requests until `resume`, as if the process were suspended. With reads=False only writes are delayed."""
        self._pauses_reads = reads
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def disconnect(self) -> None:
        """End the connection for good: the process has crashed."""
        self._disconnected = True
        self._open.set()

    async def serve(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str
    ) -> InProcessReply:
        if not self._open.is_set() and (self._pauses_reads or method != "GET"):
            await self._open.wait()
        if self._disconnected:
            raise Unreachable(f"{method} {path}: the process has crashed")
        if not self.faults.any:
            reply = await self._reply(method, path, params, body, content_type)
        else:
            reply = await self._reply_with_faults(method, path, params, body, content_type)
        self._listener(self.who, method, path, params, reply.status)
        if reply.chunks is not None:
            return reply._replace(chunks=self._chunks(reply.chunks, path, params))
        return reply

    async def _reply(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str
    ) -> InProcessReply:
        return await self._server(method, path, params, body, content_type, user_agent=self.who)

    async def _reply_with_faults(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str
    ) -> InProcessReply:
        faults, drawn = self.faults, self._rng.random()
        reads = method == "GET"
        if drawn < faults.lost_calls:
            self._listener(self.who, method, path, params, 0)
            raise Unreachable(f"{method} {path}: the connection was refused")
        drawn -= faults.lost_calls
        if drawn < faults.refusals:
            return _error_reply(self._rng.choice((429, 500, 503)), "ServiceUnavailable")
        drawn -= faults.refusals
        if drawn < faults.conflicts and method == "PATCH":
            return _error_reply(409, "Conflict")
        drawn -= faults.conflicts
        reply = await self._reply(method, path, params, body, content_type)
        if drawn < faults.lost_answers and reply.chunks is None:
            self._listener(self.who, method, path, params, 0)
            if reads:
                raise Unreachable(f"{method} {path}: the connection was reset")
            raise Ambiguous(f"{method} {path}: the connection was reset after the request was sent")
        return reply

    async def _chunks(self, chunks: AsyncIterator[bytes], path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        try:
            async for chunk in chunks:
                if not self._open.is_set() and self._pauses_reads:
                    await self._open.wait()
                if self._disconnected or self._rng.random() < self.faults.broken_watches:
                    self._listener(self.who, "GET", path, params, 0)
                    raise Unreachable(f"watch {path}: the connection was reset")
                yield chunk
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


def _error_reply(status: int, reason: str) -> InProcessReply:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason,
            "message": "injected fault"}  # fmt: skip
    return InProcessReply(status, msgspec.json.encode(body))
