"""What can go wrong with one request, each as the network or the API server would really do it.

A fault may step in before the request is sent, after the server has answered, and on the lines of a watch. Two promises are
kept, because the API keeps them: a read without resourceVersion is never stale, and an event is never dropped inside a live
stream; where one would be lost, the stream ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from tests.faults import answers
from tests.faults.answers import Reply
from tests.faults.calls import Call

Lines = AsyncIterator[bytes]


class Cut(Exception):
    """The operator's connection is reset, without an answer or in the midst of one."""


class Crashes(Protocol):
    def crash(self) -> None:
        """End the operator as kill -9 would: nothing that it says from here on reaches the server."""
        ...


class Fault:
    """A request that meets no fault; each kind overrides the moment at which it strikes."""

    reads_replies: ClassVar[bool] = False  # then the server is not asked for compressed ones

    def ask(self, call: Call) -> Mapping[str, str]:
        """The parameters with which the server is asked."""
        return call.params

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        """Strike before the request is sent; a reply here means that it never is."""
        return None

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        """Strike when the server has answered, and so has applied what it was asked."""
        return reply

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        """The lines of a watch as they arrive, given those that the server sends; None: they pass as they are."""
        return None


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class CrashBefore(Fault):
    """The operator dies with the request on its lips."""

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        operator.crash()
        raise Cut


@dataclass(frozen=True)
class CrashAfter(Fault):
    """The server has applied it; the operator dies before it reads the reply."""

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        operator.crash()
        raise Cut


# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Answer(Fault):
    """The server, or something before it, answers so and does nothing."""

    answer: Callable[[Call], Reply]

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        return self.answer(call)

    def __str__(self) -> str:
        return f"Answer({self.answer.__name__})"


@dataclass(frozen=True)
class Misreport(Fault):
    """The server does as it was asked, and the operator is told otherwise."""

    answer: Callable[[Call], Reply]

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        return self.answer(call)

    def __str__(self) -> str:
        return f"Misreport({self.answer.__name__})"


@dataclass(frozen=True)
class ResetBefore(Fault):
    """The connection is reset before the request has left."""

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        raise Cut


@dataclass(frozen=True)
class ResetAfter(Fault):
    """The server does as it was asked, and the connection is reset before its answer arrives."""

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        raise Cut


@dataclass(frozen=True)
class Slow(Fault):
    """The request takes its time to arrive. If the operator gives up meanwhile, it arrives all the same."""

    seconds: float

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        await asyncio.sleep(self.seconds)
        return None


@dataclass(frozen=True)
class SlowReply(Fault):
    """The server acts at once, its answer takes its time."""

    seconds: float

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        await asyncio.sleep(self.seconds)
        return reply


@dataclass(frozen=True)
class Hold(Fault):
    """The request is under way until the test lets it arrive. If the operator gives up meanwhile, it arrives all the same."""

    released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    async def before(self, call: Call, operator: Crashes) -> Reply | None:
        await self.released.wait()
        return None


@dataclass(frozen=True)
class StaleList(Fault):
    """A list that accepts any version (resourceVersion=0) is answered as of `version`, from a cache that lags behind.

    The server's own history answers, so it is what a lagging server would say, byte for byte. A read that does not ask for
    resourceVersion=0 is left alone: the API promises that it is never stale.
    """

    version: str

    def ask(self, call: Call) -> Mapping[str, str]:
        if call.verb != "list" or call.params.get("resourceVersion") != "0":
            return call.params
        return {**call.params, "resourceVersion": self.version, "resourceVersionMatch": "Exact"}


# ── watches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class HoldEvents(Fault):
    """The watch stays open and silent until the test lets its events through; they come in order, and all of them."""

    released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    passing: int = 0  # so many events are let through before the others, by `begun`
    begun: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def held() -> Lines:
            passed = 0
            async for line in lines:
                await (self.begun if passed < self.passing else self.released).wait()
                passed += 1
                yield line

        return held()


@dataclass(frozen=True)
class LateEvents(Fault):
    """Each event arrives so much later, as from a server that lags behind."""

    seconds: float

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def late() -> Lines:
            loop = asyncio.get_running_loop()
            waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

            async def collect() -> None:
                async for line in lines:
                    waiting.put_nowait((loop.time() + self.seconds, line))
                waiting.put_nowait((loop.time() + self.seconds, None))

            collector = asyncio.create_task(collect())
            try:
                while True:
                    due, line = await waiting.get()
                    await asyncio.sleep(due - loop.time())
                    if line is None:
                        return
                    yield line
            finally:
                collector.cancel()

        return late()


@dataclass(frozen=True)
class EndWatch(Fault):
    """The stream ends: politely, with "expired", by a reset, or by a reset in the midst of a line."""

    how: Literal["closed", "expired", "reset", "torn"]
    passing: int = 0  # so many events pass first

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def ended() -> Lines:
            for _ in range(self.passing):
                line = await anext(lines, None)
                if line is None:
                    return
                yield line
            if self.how == "torn":
                line = await anext(lines, b"")
                yield line[: len(line) // 2]
            if self.how in ("torn", "reset"):
                raise Cut
            if self.how == "expired":
                yield answers.watch_expired()

        return ended()


@dataclass(frozen=True)
class DropBookmarks(Fault):
    """Bookmarks are a courtesy of the server and may stay out; the one that ends a streaming list is a promise and may not."""

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def dropped() -> Lines:
            async for line in lines:
                if b'"type":"BOOKMARK"' not in line[:40] or b"k8s.io/initial-events-end" in line:
                    yield line

        return dropped()


@dataclass(frozen=True)
class TellTwice(Fault):
    """Each event arrives twice in a row."""

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def twice() -> Lines:
            async for line in lines:
                yield line
                # The end of a streaming list comes once: it is a mark, not an event.
                if b'"type":"BOOKMARK"' not in line[:40]:
                    yield line

        return twice()


# ── another cluster ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lens(Fault):
    """Every read shows objects as `see` makes them, or not at all where it returns None.

    It makes a state that would take minutes to bring about (every node NotReady, no node at all). It must lie over all
    reads of a kind from the operator's start on: then what the operator sees is a cluster that could exist.
    """

    see: Callable[[dict[str, Any]], dict[str, Any] | None]
    reads_replies: ClassVar[bool] = True

    async def after(self, call: Call, reply: Reply, operator: Crashes) -> Reply:
        if reply.status != 200 or call.verb not in ("get", "list"):
            return reply
        found = json.loads(reply.body)
        if call.verb == "list":
            found["items"] = [seen for item in found["items"] or () if (seen := self.see(item)) is not None]
        elif (one := self.see(found)) is not None:
            found = one
        else:
            details = {"name": call.name, "kind": call.resource}
            return answers.refusal(404, "NotFound", f'{call.resource} "{call.name}" not found', details=details)
        return Reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def lines(self, call: Call, lines: Lines) -> Lines | None:
        async def seen() -> Lines:
            async for line in lines:
                event = json.loads(line)
                if event["type"] in ("BOOKMARK", "ERROR"):
                    yield line
                elif (one := self.see(event["object"])) is not None:
                    yield json.dumps(event | {"object": one}).encode() + b"\n"

        return seen()

    def __str__(self) -> str:
        return f"Lens({self.see.__name__})"
