"""Fault 7, permanently: every watch opens and then stays silent. The view must not count as live while it ages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.errors import Unreachable
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import CONFIGMAPS

IDLE_SECONDS = 150.0  # the default of kubernetes.watchIdleTimeout
MAX_VIEW_AGE_SECONDS = 300.0  # the default of kubernetes.maxViewAge


class LoopClock:
    """The event loop's own time, which these tests let pass at once."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.monotonic(), UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SilentServer:
    """Answers lists, opens watches, and never sends an event; remembers when it last told anything."""

    def __init__(self) -> None:
        self.told_at = float("-inf")
        self.watches = 0
        self._chunks: list[bytes] = []

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.told_at = asyncio.get_running_loop().time()
        yield self._empty_list()

    async def _empty_list(self) -> AsyncIterator[bytes]:
        yield json.dumps({"metadata": {"resourceVersion": "7"}, "items": []}).encode()

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watches += 1
        yield self._silence(idle_seconds)

    async def _silence(self, idle_seconds: float) -> AsyncIterator[bytes]:
        await asyncio.sleep(idle_seconds)
        for chunk in self._chunks:
            yield chunk
        raise Unreachable(f"nothing was heard for {idle_seconds} s")


@pytest.mark.looptime
async def test_a_view_that_only_gets_older_is_not_live() -> None:
    """L5: it is listed anew, or it counts as old; it is not mended by the mere opening of one more silent watch."""
    server, clock = SilentServer(), LoopClock()
    store: Store[ConfigMap] = Store(CONFIGMAPS)
    reflector = Reflector(server, store, clock, idle_seconds=IDLE_SECONDS)
    running = asyncio.create_task(reflector.run())
    try:
        for _ in range(1800):
            await asyncio.sleep(1)
            passes_for_live = store.synced and reflector.age_seconds() <= MAX_VIEW_AGE_SECONDS
            really_told = clock.monotonic() - server.told_at
            assert not passes_for_live or really_told <= MAX_VIEW_AGE_SECONDS + IDLE_SECONDS, (
                f"the view passes for live, {reflector.age_seconds():.0f} s old; the server has told nothing for "
                f"{really_told:.0f} s, over {server.watches} watches"
            )
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert server.watches > 1
