"""All kinds that are watched as one view: how old it is, when it is live, and when going on would not be safe."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.runtime.informers import Informers
from plimsoll.runtime.metrics import Metrics
from tests.clocks import PushedClock
from tests.eventually import PATIENCE_SECONDS, eventually
from tests.kube.watch_server import Answer, WatchServer

FIVE_MINUTES = timedelta(minutes=5)


class Sight:
    def __init__(self, client: Client, clock: PushedClock, namespaces: tuple[str, ...]) -> None:
        self.clock = clock
        self.metrics = Metrics()
        self.following = Informers(
            (PODS, NODES), client, clock, self.metrics, namespaces=namespaces, idle_timeout=timedelta(seconds=150),
            rng=random.Random(1),
        )  # fmt: skip

    def live(self) -> bool:
        return self.following.not_live(FIVE_MINUTES) is None

    def metric(self, name: str, resource: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"plimsoll_view_{name}", {"resource": resource})


@asynccontextmanager
async def sight(server: WatchServer, *namespaces: str) -> AsyncIterator[Sight]:
    clock = PushedClock()
    async with Client(Credentials(server.url), clock=clock, qps=10_000, burst=10_000) as client:
        made = Sight(client, clock, namespaces)
        tasks = [asyncio.create_task(work, name=name) for name, work in made.following.tasks()]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_the_metrics_say_of_a_view() -> None:
    async with WatchServer(PODS, NODES) as server:
        server.answer(NODES, "list", Answer(403, "Forbidden"))
        for name in ("a", "b"):
            server.create(PODS, "default", name)
        async with sight(server) as seen:
            await eventually(lambda: seen.metric("synced", "pods") == 1)
            await eventually(lambda: "403" in seen.following.problem_with("nodes"))
            assert seen.metric("objects", "pods") == 2
            assert seen.metric("synced", "nodes") == 0
            seen.clock.monotonic_offset += 100
            age = seen.metric("age_seconds", "pods")
            assert age is not None
            assert age >= 100


async def test_silence_is_told_once_it_lasts() -> None:
    async with WatchServer(PODS, NODES) as server, sight(server) as seen:
        await eventually(seen.live)
        seen.clock.monotonic_offset += 301
        reason = seen.following.not_live(FIVE_MINUTES)
        assert reason is not None
        assert reason.startswith("no data about pods from the API server for 30")


async def test_one_namespace_that_cannot_be_seen_leaves_the_view_not_live() -> None:
    async with WatchServer(PODS, NODES) as server:
        server.create(PODS, "one", "a")
        server.create(PODS, "two", "b")
        server.create(PODS, "three", "c")
        server.answer(PODS, "list", Answer(403, "Forbidden"))  # to whichever of the two asks first
        async with sight(server, "one", "two") as seen:
            await eventually(lambda: "403" in seen.following.problem_with("pods"))
            await eventually(lambda: len(seen.following.view[PODS]) == 1)
            assert seen.following.view.stale == ("pods",) or "nodes" in seen.following.view.stale
            seen.clock.push(31)
            await eventually(lambda: seen.live() and not seen.following.view.stale)
            assert {pod.name for pod in seen.following.view[PODS]} == {"a", "b"}
            assert seen.metric("objects", "pods") == 2


async def test_a_kind_that_stays_out_of_sight_ends_the_watch_over_it() -> None:
    async with WatchServer(PODS, NODES) as server:
        server.answer(NODES, "list", *[Answer(403, "Forbidden")] * 1000)
        async with sight(server) as seen:
            await eventually(lambda: seen.metric("synced", "pods") == 1)
            watching = asyncio.create_task(seen.following.until_too_old(FIVE_MINUTES))
            for _ in range(10):  # heard all the time, and yet not followed
                seen.clock.push(20)
                await asyncio.sleep(0.01)
            assert not watching.done()
            seen.clock.push(150)
            await asyncio.wait_for(watching, PATIENCE_SECONDS)
