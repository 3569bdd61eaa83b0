"""A watch goes on from where the last one stopped, however it stopped."""

from __future__ import annotations

import json

import pytest

from plimsoll.kube.types.resources import BY_OWNER, NODES, PODS, owner_key
from tests.clocks import StandingClock
from tests.kube.reflected_store import ReflectedStore, owned_by
from tests.kube.watch_server import Answer, WatchServer


async def test_changes_reach_the_store_and_its_listeners():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        server.create(PODS, "default", "a", metadata=owned_by("rs-1"))
        server.update(PODS, "default", "a", spec={"nodeName": "n1"})
        server.create(PODS, "default", "b", metadata=owned_by("rs-1"))
        server.delete(PODS, "default", "a")
        await reflected.until(lambda: reflected.names() == {"b"})
        assert reflected.equals_server()
        assert reflected.store.resource_version == server.version
        assert [pod.name for pod in reflected.store.by(BY_OWNER, owner_key("default", "rs-1"))] == ["b"]
        assert [(before and before.name, after and after.name) for before, after in reflected.heard] == [
            (None, "a"),
            ("a", "a"),
            (None, "b"),
            ("a", None),
        ]


async def test_a_watch_asks_for_bookmarks_and_for_an_end():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        (params,) = server[PODS].watches()
        assert params["allowWatchBookmarks"] == "true"
        assert 300 <= int(params["timeoutSeconds"]) <= 600


async def test_bookmarks_carry_a_quiet_kind_over_a_compaction():
    async with WatchServer(PODS, NODES) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            for number in range(5):
                server.create(NODES, "", f"n{number}")  # moves the version on, but not that of any pod
            server.compact()
            server.bookmark(PODS)
            await reflected.until(lambda: reflected.store.resource_version == server.version)
            server.end_watches(PODS)
            await reflected.until(lambda: len(server[PODS].watches()) == 2)
            await reflected.until_live()
            assert reflected.reflector.relists == {"start": 1}


@pytest.mark.parametrize("how", ["end", "cut", "cut in a line", "503"])
async def test_a_new_watch_goes_on_without_a_list(how):
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS, grace_seconds=1000.0) as reflected:
            await reflected.until_live()
            server.create(PODS, "default", "b")
            await reflected.until(lambda: reflected.names() == {"a", "b"})
            reached = server.version
            server.hold(PODS)
            if how == "end":
                server.end_watches(PODS)
            elif how == "503":
                server.fail_watches(PODS, 503, "ServiceUnavailable")
            else:
                half = b'{"type":"DELETED","object":{"metadata":{"namespace":"default","name":"b"'
                server.cut_watches(PODS, half if how == "cut in a line" else b"")
            await reflected.until(lambda: len(server[PODS].watches()) == 2, pushing=0.5)
            server.create(PODS, "default", "c")
            server.hold(PODS, held=False)
            await reflected.until(lambda: reflected.names() == {"a", "b", "c"})
            assert server[PODS].watches()[1]["resourceVersion"] == reached
            assert reflected.reflector.relists == {"start": 1}
            assert reflected.store.synced


@pytest.mark.parametrize("how", ["event", "status"])
async def test_history_that_is_gone_is_made_up_for_by_a_list(how):
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.hold(PODS)
            if how == "status":
                server.answer(PODS, "watch", Answer(410, "Expired"))
            server.delete(PODS, "default", "a")
            server.create(PODS, "default", "b")
            server.compact()
            server.end_watches(PODS)
            server.hold(PODS, held=False)
            await reflected.until(lambda: reflected.names() == {"b"}, pushing=0.5)
            await reflected.until_live()
            assert reflected.reflector.relists["gone"] == 1
            assert [(before and before.name, after and after.name) for before, after in reflected.heard][-2:] in (
                [("a", None), (None, "b")],
                [(None, "b"), ("a", None)],
            )


async def test_a_watch_that_always_breaks_off_at_the_same_place_is_made_up_for_by_a_list():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.hold(PODS)  # nothing gets through: each new watch begins where the last one did
            server.delete(PODS, "default", "a")
            server.create(PODS, "default", "b")
            for watches in (2, 3):
                server.fail_watches(PODS, 500, "InternalError")
                await reflected.until(lambda: len(server[PODS].watches()) == watches, pushing=0.5)  # noqa: B023
            await reflected.until(lambda: reflected.names() == {"b"})
            assert reflected.reflector.relists == {"start": 1, "broken off": 1}


async def test_a_watch_that_breaks_off_and_gets_on_is_not_made_up_for_by_a_list():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        for number in range(1, 4):
            server.create(PODS, "default", f"p{number}")
            await reflected.until(reflected.equals_server)
            server.fail_watches(PODS, 500, "InternalError")
            await reflected.until(lambda: len(server[PODS].watches()) == number + 1, pushing=0.5)  # noqa: B023
        assert reflected.reflector.relists == {"start": 1}


async def test_a_watch_that_is_ended_for_lagging_behind_goes_on_at_once():
    """In a burst the server ends a watch again and again; each time it brought something, and the rest is waiting."""
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS, clock=StandingClock()) as reflected:
        await reflected.until_live(pushing=0.0)
        for number in range(1, 6):
            server.create(PODS, "default", f"p{number}")
            await reflected.until(reflected.equals_server)
            server.end_watches(PODS)
            await reflected.until(lambda: len(server[PODS].watches()) == number + 1)  # noqa: B023


async def test_events_that_come_twice_change_nothing():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        server.create(PODS, "default", "a")
        server.update(PODS, "default", "a", spec={"nodeName": "n1"})
        server.delete(PODS, "default", "a")
        server.create(PODS, "default", "b")
        await reflected.until(lambda: reflected.names() == {"b"})
        heard = len(reflected.heard)
        seen = reflected.reflector.events
        server.replay(PODS, 4)
        await reflected.until(lambda: reflected.reflector.events == seen + 4)
        assert reflected.names() == {"b"}
        assert len(reflected.heard) == heard
        assert reflected.store.resource_version == server.version


async def test_a_line_in_many_chunks_and_many_lines_in_one():
    async with WatchServer(NODES) as server, ReflectedStore(server, NODES) as reflected:
        await reflected.until_live()
        server.create(NODES, "", "large", metadata={"annotations": {"a": "x" * 3_000_000}})
        for number in range(300):
            server.create(NODES, "", f"n{number}")
        await reflected.until(reflected.equals_server)


async def test_a_bookmark_is_not_an_object():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.bookmark(PODS)  # carries a pod with `containers: null`
            await reflected.until(lambda: reflected.reflector.events == 1)
            assert reflected.names() == {"a"}


async def test_a_bookmark_from_the_past_is_not_believed():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        server.create(PODS, "default", "a")
        await reflected.until(reflected.equals_server)
        server.say(PODS, b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}')
        await reflected.until(lambda: reflected.reflector.events == 2)
        assert reflected.store.resource_version == server.version


async def test_what_is_no_watch_event_ends_the_watch_and_not_the_reflector():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        server.say(PODS, b"<html>an unhelpful proxy</html>")
        await reflected.until(lambda: len(server[PODS].watches()) == 2, pushing=0.5)
        server.say(PODS, json.dumps({"type": "RENAMED", "object": {}}).encode())
        await reflected.until(lambda: len(server[PODS].watches()) == 3, pushing=0.5)
        server.create(PODS, "default", "a")
        await reflected.until(reflected.equals_server)
        assert reflected.reflector.relists == {"start": 1}


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        server.answer(PODS, "watch", *[Answer(200, body=b"\n")] * 1000)
        server.end_watches(PODS)
        await reflected.until(lambda: len(server[PODS].watches()) >= 3)
        asked = len(server[PODS].watches())
        for _ in range(20):
            reflected.clock.push(0.4)
            await reflected.settle()
        assert len(server[PODS].watches()) <= asked + 5, "eight seconds: delays of at least 0.5, 1, 2 and 4"
        assert reflected.reflector.relists == {"start": 1}


async def test_retry_after_is_honoured():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS, grace_seconds=1e6) as reflected:
        await reflected.until_live()
        server.answer(PODS, "watch", Answer(429, "TooManyRequests", headers={"Retry-After": "600"}))
        server.end_watches(PODS)
        await reflected.until(lambda: "429" in reflected.reflector.problem)
        reflected.clock.push(500.0)
        await reflected.settle()
        assert len(server[PODS].watches()) == 2
        await reflected.until(lambda: len(server[PODS].watches()) == 3, pushing=50.0)
        await reflected.until_live()
