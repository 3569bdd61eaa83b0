"""The way between one process and the API server, on which calls and answers get lost, watches break, and everything may stop.

What may be lost is what the API allows: a call that never arrives, an answer that never comes, a refusal, a watch that ends. Inside
a stream nothing is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from random import Random
from typing import Protocol

import msgspec
from msgspec import Struct

from plimsoll.kube.client.errors import Ambiguous, Unreachable
from plimsoll.kube.client.in_process import Reply


class Trouble(Struct, frozen=True):
    """How often what goes wrong: shares of calls."""

    lost_calls: float = 0.0
    lost_answers: float = 0.0
    refusals: float = 0.0  # 429, 500, 503
    conflicts: float = 0.0  # 409 to a write that was not applied
    broken_watches: float = 0.0  # of pieces of a stream

    @property
    def any(self) -> bool:
        return any((self.lost_calls, self.lost_answers, self.refusals, self.conflicts, self.broken_watches))


CALM = Trouble()


class Server(Protocol):
    def __call__(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str, *, user_agent: str
    ) -> Awaitable[Reply]: ...


class Hears(Protocol):
    """Told of every reply as the process gets it; 0 is no reply."""

    def __call__(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None: ...


class Line:
    def __init__(self, server: Server, who: str, rng: Random, hears: Hears) -> None:
        self.who = who
        self.trouble = CALM
        self._server = server
        self._rng = rng
        self._hears = hears
        self._holds_reads = True
        self._open = asyncio.Event()
        self._open.set()
        self._cut = False

    def hold(self, *, reads: bool = True) -> None:
        """As if the process were stopped: what it has to say is said once it goes on, however late that is.

        Without `reads`, only its writes are late: it still sees what happens meanwhile.
        """
        self._holds_reads = reads
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """For good: the process is dead."""
        self._cut = True
        self._open.set()

    async def serve(self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str) -> Reply:
        if not self._open.is_set() and (self._holds_reads or method != "GET"):
            await self._open.wait()
        if self._cut:
            raise Unreachable(f"{method} {path}: the process is dead")
        if not self.trouble.any:
            reply = await self._answered(method, path, params, body, content_type)
        else:
            reply = await self._troubled(method, path, params, body, content_type)
        self._hears(self.who, method, path, params, reply.status)
        if reply.chunks is not None:
            return reply._replace(chunks=self._pieces(reply.chunks, path, params))
        return reply

    async def _answered(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str
    ) -> Reply:
        return await self._server(method, path, params, body, content_type, user_agent=self.who)

    async def _troubled(
        self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str
    ) -> Reply:
        trouble, drawn = self.trouble, self._rng.random()
        reads = method == "GET"
        if drawn < trouble.lost_calls:
            self._hears(self.who, method, path, params, 0)
            raise Unreachable(f"{method} {path}: the connection was refused")
        drawn -= trouble.lost_calls
        if drawn < trouble.refusals:
            return _refusal(self._rng.choice((429, 500, 503)), "ServiceUnavailable")
        drawn -= trouble.refusals
        if drawn < trouble.conflicts and method == "PATCH":
            return _refusal(409, "Conflict")
        drawn -= trouble.conflicts
        reply = await self._answered(method, path, params, body, content_type)
        if drawn < trouble.lost_answers and reply.chunks is None:
            self._hears(self.who, method, path, params, 0)
            if reads:
                raise Unreachable(f"{method} {path}: the connection was reset")
            raise Ambiguous(f"{method} {path}: the connection was reset after the request was sent")
        return reply

    async def _pieces(self, chunks: AsyncIterator[bytes], path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        try:
            async for chunk in chunks:
                if not self._open.is_set() and self._holds_reads:
                    await self._open.wait()
                if self._cut or self._rng.random() < self.trouble.broken_watches:
                    self._hears(self.who, "GET", path, params, 0)
                    raise Unreachable(f"watch {path}: the connection was reset")
                yield chunk
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


def _refusal(status: int, reason: str) -> Reply:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason,
            "message": "the server is in trouble"}  # fmt: skip
    return Reply(status, msgspec.json.encode(body))
