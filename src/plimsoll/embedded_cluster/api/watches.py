"""A watch: the changes since a revision, and then every change as it happens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.selectors import Matches
from plimsoll.embedded_cluster.api.storage import Collection, ObjectChange

# A client that falls this far behind is disconnected and must list again.
_LONGEST_BACKLOG = 200_000
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Form = Callable[[Json], Json]


class Watch:
    """The events of one watch as lines of JSON. It listens to its collection while it is open."""

    def __init__(
        self, kind: ResourceKind, collection: Collection, *, namespace: str, matches: Matches | None, form: Form | None
    ) -> None:
        self._kind = kind
        self._collection = collection
        self._namespace = namespace
        self._matches = matches
        self._form = form  # None: objects as they are stored
        self._lines: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.open = True
        self.bookmarks = False

    # ── start ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def start_after(self, revision: int) -> None:
        """Start with every change after a revision that is still in the history."""
        history = self._collection.history
        recent: list[ObjectChange] = []
        for change in reversed(history):
            if change.revision <= revision:
                break
            recent.append(change)
        for change in reversed(recent):
            self._enqueue(change)
        self._follow()

    def start_with_all(self) -> None:
        """Start with every object as ADDED."""
        for obj in self._collection.all(self._namespace):
            if self._matches is None or self._matches(obj):
                self._push("ADDED", self._shown(obj))
        self._follow()

    def _follow(self) -> None:
        self._collection.listeners.append(self._enqueue)

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue(self, change: ObjectChange) -> None:
        obj, before = change.object, change.before
        if self._namespace and obj["metadata"].get("namespace") != self._namespace:
            return
        event: str = change.type
        if self._matches is not None:
            was = before is not None and self._matches(before)
            now = change.type != "DELETED" and self._matches(obj)
            if not was and not now:
                return
            event = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
        self._push(event, change.encoded() if self._form is None else msgspec.json.encode(self._form(obj)))

    def _shown(self, obj: Json) -> bytes:
        return msgspec.json.encode(obj if self._form is None else self._form(obj))

    def bookmark(self, revision: int, *, ends_initial_events: bool = False) -> None:
        if not self.bookmarks or not self.open:
            return
        metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        mark = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        self._push("BOOKMARK", msgspec.json.encode(mark))

    def _push(self, event: str, encoded: bytes) -> None:
        if len(self._lines) >= _LONGEST_BACKLOG:
            self.close()
            return
        self._lines.append(b'{"type":"%b","object":%b}\n' % (event.encode(), encoded))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Stop receiving events; queued events can still be read."""
        if self.open:
            self.open = False
            self._collection.listeners[:] = [one for one in self._collection.listeners if one != self._enqueue]
            self._wake()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Queued lines, joined into one chunk at a time; ends when the watch is closed."""
        try:
            while True:
                if self._lines:
                    chunk = b"".join(self._lines)
                    self._lines.clear()
                    yield chunk
                elif not self.open:
                    return
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
        finally:
            self.close()
