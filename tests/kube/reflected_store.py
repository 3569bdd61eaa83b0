"""A store that a reflector keeps equal to a test server, and the changes that its listeners received."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Name, Store
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.codec import convert
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.kube.watch_server import WatchServer

T = TypeVar("T", bound=KubeObject)


class ReflectedStore(Generic[T]):
    """Runs a reflector while the `async with` lasts, over the real client and a clock that the test can push."""

    def __init__(
        self, server: WatchServer, resource: Resource[T], *, clock: PushedClock | None = None, **options: Any
    ) -> None:
        self.server = server
        self.resource = resource
        self.clock = clock or PushedClock()
        self.client = Client(Credentials(server.url), clock=self.clock, qps=10_000, burst=10_000)
        self.store = Store(resource)
        self.store.listen(self._hear)
        self.heard: list[tuple[KubeObject | None, KubeObject | None]] = []  # before and after
        self.reflector = Reflector(self.client, self.store, self.clock, rng=random.Random(1), **options)
        self._task: asyncio.Task[None] | None = None

    def _hear(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        self.heard.append((before, after))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.reflector.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.client.close()

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    def equals_server(self) -> bool:
        return contents(self.store) == served(self.server, self.resource)

    def names(self) -> set[str]:
        return {obj.name for obj in self.store}

    async def until(self, condition: Callable[[], Any], *, pushing: float = 0.0) -> None:
        """Wait for a condition; with `pushing`, so many seconds pass whenever it is looked at."""

        def look() -> Any:
            if self._task is not None and self._task.done():
                self._task.result()
            found = condition()
            if not found and pushing:
                self.clock.push(pushing)
            return found

        await eventually(look)

    async def settle(self) -> None:
        """Let everything run that is due; to see that something does not happen, which only luck could hide."""
        for _ in range(20):
            await asyncio.sleep(0.001)

    async def until_live(self, *, pushing: float = 1.0) -> None:
        await self.until(lambda: self.store.synced and self.server[self.resource].streams, pushing=pushing)


def contents(store: Store[T]) -> dict[Name, T]:
    return {(obj.namespace, obj.name): obj for obj in store}


def served(server: WatchServer, resource: Resource[T]) -> dict[Name, T]:
    return {name: convert(obj, resource.type) for name, obj in server[resource].objects.items()}


def owned_by(uid: str, name: str = "web") -> dict[str, Any]:
    """Metadata of a replica."""
    return {"ownerReferences": [{"kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}]}
