"""Faults on a watch: late, silent, ended, torn, without bookmarks, doubled; and never an event dropped in a live stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.faults import answers
from tests.faults.faults import Answer, DropBookmarks, EndWatch, HoldEvents, LateEvents, Lens, TellTwice
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules, on
from tests.faults.scripted import ScriptedServer, event

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
WATCH_PODS = on("watch", "pods")
FIRST, SECOND, THIRD = (event("ADDED", f"web-{n}", n) for n in (1, 2, 3))


@asynccontextmanager
async def watching(proxy: Proxy, path: str = PODS) -> AsyncIterator[aiohttp.StreamReader]:
    link = await proxy.link(path.rpartition("/")[2])
    async with aiohttp.ClientSession() as client, client.get(f"{link.url}{path}?watch=1") as response:
        yield response.content


async def line(stream: aiohttp.StreamReader) -> bytes:
    return await asyncio.wait_for(stream.readuntil(b"\n"), 60)


async def test_a_silent_watch_stays_open_and_tells_all_in_the_end(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    silence = HoldEvents(passing=1)
    silence.begun.set()
    rules.add(WATCH_PODS, silence)
    for one in (FIRST, SECOND, THIRD):
        scripted.feed(PODS).put_nowait(one)
    async with watching(to_scripted) as stream:
        assert await line(stream) == FIRST
        reading = asyncio.create_task(line(stream))
        await record.until(lambda record: next(iter(record)).events == 1)
        assert not reading.done()
        silence.released.set()
        assert [await reading, await line(stream)] == [SECOND, THIRD]


async def test_kinds_out_of_order(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    nodes_held = HoldEvents()
    rules.add(on("watch", "nodes"), nodes_held)
    scripted.feed(NODES).put_nowait(event("ADDED", "n-1", 1))
    scripted.feed(PODS).put_nowait(SECOND)
    async with watching(to_scripted, NODES) as nodes, watching(to_scripted) as pods:
        first_node = asyncio.create_task(line(nodes))
        assert await line(pods) == SECOND
        assert not first_node.done()
        nodes_held.released.set()
        assert await first_node == event("ADDED", "n-1", 1)


async def test_late_events_keep_their_order(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, LateEvents(0.2))
    clock = asyncio.get_running_loop().time
    async with watching(to_scripted) as stream:
        sent = clock()
        for one in (FIRST, SECOND, THIRD, None):
            scripted.feed(PODS).put_nowait(one)
        assert await asyncio.wait_for(stream.read(), 60) == FIRST + SECOND + THIRD
        assert clock() - sent >= 0.2


async def test_history_that_is_gone_inside_a_watch(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, EndWatch("expired", passing=1))
    scripted.feed(PODS).put_nowait(FIRST)
    async with watching(to_scripted) as stream:
        assert await line(stream) == FIRST
        last = json.loads(await line(stream))
        assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await asyncio.wait_for(stream.read(), 60) == b""


async def test_history_that_is_gone_before_the_watch(to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, Answer(answers.expired))
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession() as client, client.get(f"{link.url}{PODS}?watch=1") as response:
        assert response.status == 410
        assert (await response.json())["reason"] == "Expired"


async def test_a_stream_that_closes(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, EndWatch("closed", passing=2))
    for one in (FIRST, SECOND, THIRD):
        scripted.feed(PODS).put_nowait(one)
    async with watching(to_scripted) as stream:
        assert await asyncio.wait_for(stream.read(), 60) == FIRST + SECOND


async def test_a_stream_that_is_reset(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, EndWatch("reset", passing=1))
    scripted.feed(PODS).put_nowait(FIRST)
    async with watching(to_scripted) as stream:
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(stream.read(), 60)


async def test_a_stream_that_is_reset_in_the_midst_of_a_line(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    rules.add(WATCH_PODS, EndWatch("torn", passing=1))
    for one in (FIRST, SECOND):
        scripted.feed(PODS).put_nowait(one)
    seen: list[bytes] = []

    async def collect() -> None:
        seen.extend([part async for part in stream.iter_any()])

    async with watching(to_scripted) as stream:
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(collect(), 60)
    # A reset may overtake what was sent before it; what did arrive is a beginning of what was sent.
    assert (FIRST + SECOND[: len(SECOND) // 2]).startswith(b"".join(seen))
    [exchange] = record
    assert exchange.events == 1


async def test_bookmarks_stay_out_but_for_the_end_of_a_streaming_list(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules
) -> None:
    rules.add(WATCH_PODS, DropBookmarks())
    courtesy = event("BOOKMARK", "", 5)
    promise = event("BOOKMARK", "", 6, annotations={"k8s.io/initial-events-end": "true"})
    for one in (FIRST, courtesy, promise, SECOND, None):
        scripted.feed(PODS).put_nowait(one)
    async with watching(to_scripted) as stream:
        assert await asyncio.wait_for(stream.read(), 60) == FIRST + promise + SECOND


async def test_events_twice(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, TellTwice())
    for one in (FIRST, SECOND, None):
        scripted.feed(PODS).put_nowait(one)
    async with watching(to_scripted) as stream:
        assert await asyncio.wait_for(stream.read(), 60) == FIRST + FIRST + SECOND + SECOND


async def test_faults_of_a_watch_add_up(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(WATCH_PODS, TellTwice())
    rules.add(WATCH_PODS, EndWatch("closed", passing=3))
    for one in (FIRST, SECOND):
        scripted.feed(PODS).put_nowait(one)
    async with watching(to_scripted) as stream:
        assert await asyncio.wait_for(stream.read(), 60) == FIRST + FIRST + SECOND


async def test_a_lens_over_a_watch(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(on("list watch", "nodes"), Lens(lambda node: node | {"spec": {"unschedulable": True}}))
    bookmark = event("BOOKMARK", "", 5)
    for one in (event("ADDED", "n-1", 1), bookmark, None):
        scripted.feed(NODES).put_nowait(one)
    async with watching(to_scripted, NODES) as stream:
        seen = json.loads(await line(stream))
        assert seen["object"]["spec"] == {"unschedulable": True}
        assert await line(stream) == bookmark
