"""The picture and those who look at it. It is renewed while anyone looks, told to all at once, and encoded once for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import structlog

from plimsoll.dashboard import gzip_stream
from plimsoll.dashboard.cluster_snapshot import Picture
from plimsoll.dashboard.history import SECONDS_BETWEEN

log = structlog.get_logger()

T = TypeVar("T")

# Twice a second is as often as people can follow.
CHANGE_SECONDS = 0.5
# Who has not taken so many changes is not looking, or cannot: it is let go, and gets a whole picture when it comes back.
MOST_WAITING = 8
MOST_CLIENTS = 32


class Message:
    """Bytes for everybody, plain and squeezed; squeezed only where somebody wants it, and then once."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._squeezed: asyncio.Future[bytes] | None = None

    async def squeezed(self) -> bytes:
        if self._squeezed is None:
            self._squeezed = asyncio.ensure_future(asyncio.to_thread(gzip_stream.block, self.plain))
        return await asyncio.shield(self._squeezed)


class _Whole:
    """One version of the picture, as a reply and as an event."""

    def __init__(self, version: int, data: bytes) -> None:
        self.version = version
        self.reply = Message(data)
        self.event = event("picture", version, data)


class Client:
    """One who looks on: what it has still to be told, and how it is let go."""

    def __init__(self, let_go: Callable[[], None]) -> None:
        self.waiting: asyncio.Queue[Message] = asyncio.Queue(MOST_WAITING)
        self.gone = False
        self._let_go = let_go

    def tell(self, message: Message) -> None:
        try:
            self.waiting.put_nowait(message)
        except asyncio.QueueFull:
            self._let_go()


class TooManyClients(Exception):
    """As many look on as one process serves."""


class Showing:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._clients: set[Client] = set()
        self._watched = asyncio.Event()
        # Who joins between the making of a change and its telling would miss it, or get it twice.
        self._renewing = asyncio.Lock()
        self._whole = _Whole(-1, b"")

    @property
    def clients(self) -> frozenset[Client]:
        """Who looks on."""
        return frozenset(self._clients)

    async def whole(self) -> Message:
        """Everything as it is now."""
        return (await self._undisturbed(self._renewed())).reply

    def beat(self) -> Message:
        """A sign of life, and the time: pages tell how long ago things were, and their clocks are not the cluster's.

        An event and not a comment: a page never sees those, and would not notice that they stay away.
        """
        return event("beat", self._picture.version, msgspec.json.encode({"now": self._picture.now}))

    async def join(self, client: Client) -> None:
        """Tell the client everything, and from then on every change. Whoever joins leaves, also where he could not join."""
        await self._undisturbed(self._join(client))

    async def _join(self, client: Client) -> None:
        whole = await self._renewed()
        if len(self._clients) >= MOST_CLIENTS:
            raise TooManyClients
        if not client.gone:
            client.tell(self.beat())  # first: the picture tells how long ago things were
            client.tell(whole.event)
            self._clients.add(client)
            self._watched.set()

    async def _undisturbed(self, work: Coroutine[Any, Any, T]) -> T:
        """A client that goes away while its picture is made must not take the others' changes with it."""

        async def locked() -> T:
            async with self._renewing:
                return await work

        return await asyncio.shield(asyncio.ensure_future(locked()))

    def leave(self, client: Client) -> None:
        client.gone = True
        self._clients.discard(client)
        if not self._clients:
            self._watched.clear()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="dashboard: changes")
            group.create_task(self._sample(), name="dashboard: history")

    async def _follow(self) -> None:
        while True:
            await self._watched.wait()
            async with self._renewing:
                await self._tell_changes()
            await asyncio.sleep(CHANGE_SECONDS)

    async def _sample(self) -> None:
        while True:
            try:
                self._picture.sample()
            except Exception:
                log.exception("the groups' history could not be kept")
            await asyncio.sleep(SECONDS_BETWEEN)

    async def _renewed(self) -> _Whole:
        await self._tell_changes()
        if self._whole.version != self._picture.version:
            self._whole = _Whole(self._picture.version, self._picture.whole())
        return self._whole

    async def _tell_changes(self) -> None:
        change = await self._picture.renew() if self._picture.stale else None
        if change is None:
            return
        message = event("change", self._picture.version, change)
        for client in tuple(self._clients):
            client.tell(message)


def event(kind: str, version: int, data: bytes) -> Message:
    """As `EventSource` reads it; JSON has no line breaks of its own."""
    return Message(b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), version, data))
