"""Sends snapshots and changes to connected browsers. The snapshot is updated only while clients are connected, and each message is
encoded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import structlog

from plimsoll.dashboard import gzip_stream
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot
from plimsoll.dashboard.history import SECONDS_BETWEEN

log = structlog.get_logger()

T = TypeVar("T")

# People cannot follow more than two updates per second.
CHANGE_SECONDS = 0.5
# A client with this many unread messages is disconnected; it gets a full snapshot when it reconnects.
MOST_WAITING = 8
MOST_CLIENTS = 32


class Message:
    """A message for all clients, plain and gzipped; compressed once, and only if a client accepts gzip."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._compressed: asyncio.Future[bytes] | None = None

    async def compressed(self) -> bytes:
        if self._compressed is None:
            self._compressed = asyncio.ensure_future(asyncio.to_thread(gzip_stream.gzip_block, self.plain))
        return await asyncio.shield(self._compressed)


class _Whole:
    """One version of the full snapshot, as a response and as an event."""

    def __init__(self, version: int, data: bytes) -> None:
        self.version = version
        self.reply = Message(data)
        self._events: dict[str, Message] = {}

    def event(self, name: str) -> Message:
        """The snapshot as an event of this name, encoded once."""
        if name not in self._events:
            self._events[name] = sse_event(name, self.version, self.reply.plain)
        return self._events[name]


class StreamClient:
    """One connected browser: its unread messages, and how to disconnect it."""

    def __init__(self, snapshot_event: str, disconnect: Callable[[], None]) -> None:
        """snapshot_event: the name of the event that carries a full snapshot."""
        self.snapshot_event = snapshot_event
        self.waiting: asyncio.Queue[Message] = asyncio.Queue(MOST_WAITING)
        self.gone = False
        self._disconnect = disconnect

    def send(self, message: Message) -> None:
        try:
            self.waiting.put_nowait(message)
        except asyncio.QueueFull:
            self._disconnect()


class TooManyClients(Exception):
    """The process already serves the maximum number of clients."""


class Broadcaster:
    def __init__(self, snapshot: DashboardSnapshot) -> None:
        self._snapshot = snapshot
        self._clients: set[StreamClient] = set()
        self._watched = asyncio.Event()
        # A client that joins between building and sending a change would miss it or get it twice.
        self._renewing = asyncio.Lock()
        self._full = _Whole(-1, b"")

    @property
    def clients(self) -> frozenset[StreamClient]:
        """The connected clients."""
        return frozenset(self._clients)

    async def whole(self) -> Message:
        """The full snapshot as it is now."""
        return (await self._undisturbed(self._renewed())).reply

    def heartbeat(self) -> Message:
        """A heartbeat with the cluster's time, from which pages compute ages.

        An event and not a comment: pages cannot observe comments, and could not notice missing ones.
        """
        return sse_event("beat", self._snapshot.version, msgspec.json.encode({"now": self._snapshot.now}))

    async def join(self, client: StreamClient) -> None:
        """Send the client the full snapshot and then every change. The caller must call `leave`, even if this raises."""
        await self._undisturbed(self._join(client))

    async def _join(self, client: StreamClient) -> None:
        whole = await self._renewed()
        if len(self._clients) >= MOST_CLIENTS:
            raise TooManyClients
        if not client.gone:
            client.send(self.heartbeat())  # first: ages in the snapshot depend on it
            client.send(whole.event(client.snapshot_event))
            self._clients.add(client)
            self._watched.set()

    async def _undisturbed(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work under the lock; a client that disconnects must not cancel the update of the others."""

        async def locked() -> T:
            async with self._renewing:
                return await work

        return await asyncio.shield(asyncio.ensure_future(locked()))

    def leave(self, client: StreamClient) -> None:
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
                await self._send_changes()
            await asyncio.sleep(CHANGE_SECONDS)

    async def _sample(self) -> None:
        while True:
            try:
                self._snapshot.sample()
            except Exception:
                log.exception("cannot record node group history")
            await asyncio.sleep(SECONDS_BETWEEN)

    async def _renewed(self) -> _Whole:
        await self._send_changes()
        if self._full.version != self._snapshot.version:
            self._full = _Whole(self._snapshot.version, self._snapshot.whole())
        return self._full

    async def _send_changes(self) -> None:
        change = await self._snapshot.renew() if self._snapshot.stale else None
        if change is None:
            return
        message = sse_event("change", self._snapshot.version, change)
        for client in tuple(self._clients):
            client.send(message)


def sse_event(kind: str, version: int, data: bytes) -> Message:
    """A server-sent event; the JSON contains no line breaks."""
    return Message(b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), version, data))
