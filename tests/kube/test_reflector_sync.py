"""`synced` means live now: when it is true, when it is not, and what the reflector says about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import NODES, PODS
from tests.clocks import StandingClock
from tests.kube.reflected_store import ReflectedStore
from tests.kube.watch_server import Answer, WatchServer


async def test_not_before_the_whole_list_is_there():
    async with WatchServer(PODS) as server:
        for number in range(4):
            server.create(PODS, "default", f"p{number}")
        server.answer(PODS, "page", *[Answer(500)] * 1000)
        async with ReflectedStore(server, PODS, page_size=2) as reflected:
            await reflected.until(lambda: len(server[PODS].lists()) > 10, pushing=1.0)
            assert reflected.names() == {"p0", "p1"}
            assert not reflected.store.synced
            assert "500" in reflected.reflector.problem


async def test_a_brief_reconnect_does_not_show():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS, grace_seconds=1000.0) as reflected:
        await reflected.until_live()
        server.answer(PODS, "watch", Answer(500), Answer(503), Answer(429))
        server.cut_watches(PODS)
        while len(server[PODS].watches()) < 5:
            assert reflected.store.synced
            reflected.clock.push(0.5)
            await asyncio.sleep(0.005)
        await reflected.until(lambda: reflected.reflector.problem == "")
        assert reflected.store.synced


async def test_a_watch_that_does_not_come_back_ends_it_and_one_that_does_restores_it():
    options: dict[str, Any] = {"grace_seconds": 1000.0, "idle_seconds": 1e6}
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS, **options) as reflected:
        await reflected.until_live()
        server.answer(PODS, "watch", *[Answer(500)] * 100_000)
        server.cut_watches(PODS)
        await reflected.until(lambda: "500" in reflected.reflector.problem)
        assert reflected.store.synced
        for _ in range(40):
            reflected.clock.push(24.0)
            await reflected.settle()
        assert reflected.store.synced, "960 seconds are less than the grace, however many attempts there were"
        await reflected.until(lambda: not reflected.store.synced, pushing=24.0)

        server.create(PODS, "default", "missed")
        server.answer_truly()
        await reflected.until(lambda: reflected.store.synced, pushing=5.0)
        assert reflected.names() == {"missed"}, "live means that what was missed has arrived"
        assert reflected.reflector.problem == ""
        assert reflected.reflector.relists == {"start": 1}


@asynccontextmanager
async def open_again_after_a_break(server: WatchServer) -> AsyncIterator[ReflectedStore[Pod]]:
    """A view that was lost, with a watch that has just opened again. No time passes by itself."""
    async with ReflectedStore(server, PODS, clock=StandingClock(), grace_seconds=1.0) as reflected:
        await reflected.until_live()
        server.answer(PODS, "watch", Answer(500))
        server.cut_watches(PODS)
        await reflected.until(lambda: "500" in reflected.reflector.problem, pushing=0.1)
        reflected.clock.push(1.0)
        await reflected.until(lambda: not reflected.store.synced)
        await reflected.until(lambda: server[PODS].streams, pushing=0.1)
        await reflected.settle()
        yield reflected


async def test_after_a_break_a_bookmark_proves_that_nothing_is_missing():
    async with WatchServer(PODS) as server, open_again_after_a_break(server) as reflected:
        assert not reflected.store.synced
        server.bookmark(PODS)
        await reflected.until(lambda: reflected.store.synced)
        assert reflected.reflector.problem == ""


async def test_after_a_break_a_bookmark_from_the_past_proves_nothing():
    async with WatchServer(PODS) as server, open_again_after_a_break(server) as reflected:
        events = reflected.reflector.events
        server.say(PODS, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}')
        await reflected.until(lambda: reflected.reflector.events == events + 1)
        assert not reflected.store.synced


async def test_after_a_break_what_was_missed_is_waited_for():
    async with WatchServer(PODS) as server, open_again_after_a_break(server) as reflected:
        for number in range(5):
            reflected.clock.push(0.3)
            server.create(PODS, "default", f"missed-{number}")
            await reflected.until(reflected.equals_server)
            await reflected.settle()
            assert not reflected.store.synced, "as long as events come one after another, there may be more"
        reflected.clock.push(0.6)
        await reflected.until(lambda: reflected.store.synced)


async def test_a_silent_watch_is_taken_for_dead():
    async with (
        WatchServer(PODS) as server,
        ReflectedStore(server, PODS, idle_seconds=1.0, grace_seconds=1e6) as reflected,
    ):
        await reflected.until_live(pushing=0.0)
        server.silence_watches(PODS)
        server.create(PODS, "default", "a")
        server.answer(PODS, "watch", *[Answer(500)] * 3)
        await reflected.until(lambda: not reflected.store.synced)
        assert "no answer in time" in reflected.reflector.problem or "500" in reflected.reflector.problem
        await reflected.until(reflected.equals_server, pushing=1.0)
        await reflected.until(lambda: reflected.store.synced)


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound")])
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_refusal_ends_it_at_once_and_is_not_repeated_often(status, reason, verb):
    async with WatchServer(NODES) as server:
        server.create(NODES, "", "n1")
        if verb == "list":
            server.answer(NODES, "list", Answer(status, reason))
        async with ReflectedStore(server, NODES, grace_seconds=1e6) as reflected:
            if verb == "watch":
                await reflected.until_live()
                server.answer(NODES, "watch", Answer(status, reason))
                server.end_watches(NODES)
            await reflected.until(lambda: str(status) in reflected.reflector.problem)
            assert not reflected.store.synced
            assert "nodes" in reflected.reflector.problem
            assert reason in reflected.reflector.problem
            asked = len(server[NODES].requests)
            reflected.clock.push(14.0)
            await reflected.settle()
            assert len(server[NODES].requests) == asked
            await reflected.until_live(pushing=5.0)
            assert reflected.names() == {"n1"}
            assert reflected.reflector.problem == ""


async def test_not_while_a_list_is_read_again_but_the_old_data_stays():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.answer(PODS, "list", *[Answer(500)] * 1000)
            server.fail_watches(PODS, 410, "Expired")
            await reflected.until(lambda: not reflected.store.synced)
            assert reflected.names() == {"a"}


async def test_the_age_is_that_of_the_last_byte():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        reflected.clock.push(40.0)
        assert reflected.reflector.age_seconds() >= 40.0
        server.bookmark(PODS)
        await reflected.until(lambda: reflected.reflector.age_seconds() < 40.0)
        assert reflected.store.synced


@pytest.mark.parametrize("broken", [False, True])
async def test_not_after_the_reflector_was_stopped(broken):
    async with WatchServer(PODS) as server:
        async with ReflectedStore(server, PODS, grace_seconds=1e6) as reflected:
            await reflected.until_live()
            if broken:
                server.answer(PODS, "watch", *[Answer(500)] * 1000)
                server.cut_watches(PODS)
                await reflected.until(lambda: "500" in reflected.reflector.problem, pushing=0.5)
        assert not reflected.store.synced
        await reflected.settle()
        assert not [task for task in asyncio.all_tasks() if "grace" in repr(task)], "its timers are stopped, too"
