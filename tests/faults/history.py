"""Every revision of the store while a test runs, seen past the proxy: what must always hold is asserted on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.eventually import PATIENCE_SECONDS
from tests.faults.upstream import Direct, Json, RefusedError

Place = tuple[str, str, str]  # collection path, namespace, name
State = dict[Place, Json]


@dataclass(frozen=True)
class Revision:
    """One change of one object."""

    version: int  # etcd's revision: one order over all kinds
    collection: str
    change: str  # ADDED, MODIFIED, DELETED
    object: Json

    @property
    def place(self) -> Place:
        metadata = self.object["metadata"]
        return (self.collection, metadata.get("namespace", ""), metadata["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    def __str__(self) -> str:
        return f"revision {self.version}: {self.change} {'/'.join(self.place)}"


class History:
    """Watches collections from now on, straight from the API server, and keeps all that it is told."""

    def __init__(self, direct: Direct, collections: Iterable[str]) -> None:
        self._direct = direct
        self._collections = tuple(collections)
        self._start: State = {}
        self._seen: dict[str, list[Revision]] = {collection: [] for collection in self._collections}
        self._changed = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for collection in self._collections:
            listing = await self._direct.get(collection)
            for item in listing["items"]:
                self._start[_place(collection, item)] = item
            version = listing["metadata"]["resourceVersion"]
            self._watches.append(asyncio.create_task(self._follow(collection, version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _follow(self, collection: str, version: str) -> None:
        while True:
            async for event in self._direct.watch(collection, version):
                if event["type"] == "ERROR":
                    raise RefusedError(event["object"]["code"], f"{collection}: {event['object']['message']}")
                version = event["object"]["metadata"]["resourceVersion"]
                self._seen[collection].append(Revision(int(version), collection, event["type"], event["object"]))
                self._changed.set()

    async def caught_up(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the history holds everything that the API server holds now."""
        for collection in self._collections:
            listing = await self._direct.get(collection)
            version = int(listing["metadata"]["resourceVersion"])
            wanted = {_place(collection, item): item["metadata"]["resourceVersion"] for item in listing["items"]}
            async with asyncio.timeout(seconds):
                while not self._holds(collection, wanted, version):
                    for watch in self._watches:
                        if watch.done():
                            watch.result()
                    self._changed.clear()
                    await self._changed.wait()

    def _holds(self, collection: str, wanted: dict[Place, str], version: int) -> bool:
        """Whether the state at `version` is here: others may have written since."""
        state = {place: item for place, item in self._start.items() if place[0] == collection}
        for revision in self._seen[collection]:
            if revision.version <= version:
                _apply(state, revision)
        return {place: item["metadata"]["resourceVersion"] for place, item in state.items()} == wanted

    def revisions(self, collection: str = "") -> list[Revision]:
        """What changed, in the order in which etcd took it."""
        kinds = [collection] if collection else self._collections
        return sorted((one for kind in kinds for one in self._seen[kind]), key=lambda one: one.version)

    def states(self) -> Iterator[tuple[Revision, State]]:
        """The whole state after each revision. The mapping changes in place: look at it, do not keep it."""
        state = dict(self._start)
        for revision in self.revisions():
            _apply(state, revision)
            yield revision, state


def _apply(state: State, revision: Revision) -> None:
    if revision.change == "DELETED":
        state.pop(revision.place, None)
    else:
        state[revision.place] = revision.object


def _place(collection: str, item: Json) -> Place:
    metadata = item["metadata"]
    return (collection, metadata.get("namespace", ""), metadata["name"])
