"""A flood of events or objects leaves other tasks their turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually

OBJECTS = 20_000


class FullBuffer:
    """An API server whose every byte is already here: nothing that is read from it ever waits."""

    def __init__(self, listed: int, streamed: int) -> None:
        items = [{"metadata": {"name": f"listed-{n}", "uid": f"{n}", "resourceVersion": "1"}} for n in range(listed)]
        self._page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}, separators=(",", ":")).encode()
        self._stream = b"".join(
            b'{"type":"ADDED","object":{"metadata":{"name":"streamed-%d","uid":"%d","resourceVersion":"%d"}}}\n'
            % (n, n + listed, n + 2)
            for n in range(streamed)
        )

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async def chunks() -> AsyncIterator[bytes]:
            yield self._page

        yield chunks()

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async def chunks() -> AsyncIterator[bytes]:
            yield self._stream
            await asyncio.Event().wait()

        yield chunks()


async def turns_of_others_while_following(server: FullBuffer) -> int:
    store = Store(NODES)
    turns_at_the_end = 0
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def last_one(*_: object) -> None:
        nonlocal turns_at_the_end
        turns_at_the_end = turns

    store.listen(last_one)
    tasks = [asyncio.create_task(other()), asyncio.create_task(Reflector(server, store, RealClock()).run())]
    await eventually(lambda: len(store) == OBJECTS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return turns_at_the_end


# Applying 20,000 objects takes 50 ms on the fastest of machines, and a turn lasts 5 ms: a slower machine gives more turns.


async def test_a_full_socket_buffer():
    assert await turns_of_others_while_following(FullBuffer(listed=0, streamed=OBJECTS)) >= 5


async def test_a_large_list():
    assert await turns_of_others_while_following(FullBuffer(listed=OBJECTS, streamed=0)) >= 5
