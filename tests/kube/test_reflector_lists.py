"""A list is read as of one moment, whole or in pages, and what comes of it is the difference to what was known."""

from __future__ import annotations

import json

import pytest

from plimsoll.kube.types.resources import NODES, PODS
from tests.kube.reflected_store import ReflectedStore
from tests.kube.watch_server import Answer, WatchServer


async def test_a_list_is_read_whole():
    async with WatchServer(PODS) as server:
        for number in range(7):
            server.create(PODS, "default", f"p{number}")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            assert server[PODS].lists() == [{}], "without a version it comes from a quorum"
            assert server[PODS].watches()[0]["resourceVersion"] == server.version


async def test_all_pages_make_up_the_store():
    async with WatchServer(PODS) as server:
        for number in range(7):
            server.create(PODS, "default", f"p{number}")
        async with ReflectedStore(server, PODS, page_size=3) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            first, second, third = server[PODS].lists()
            assert "resourceVersion" not in first, "without a version the first page comes from a quorum"
            assert first["limit"] == second["limit"] == "3"
            assert second["continue"] != third["continue"]
            assert server[PODS].watches()[0]["resourceVersion"] == server.version


async def test_an_empty_list_is_a_list():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        assert not reflected.names()
        assert reflected.store.resource_version == server.version


async def test_one_namespace():
    async with WatchServer(PODS) as server:
        server.create(PODS, "ours", "a")
        server.create(PODS, "theirs", "b")
        async with ReflectedStore(server, PODS, namespace="ours") as reflected:
            await reflected.until_live()
            server.create(PODS, "theirs", "c")
            server.create(PODS, "ours", "d")
            await reflected.until(lambda: reflected.names() == {"a", "d"})


async def test_a_relist_is_applied_as_its_difference():
    async with WatchServer(NODES) as server:
        for name in ("same", "changed", "gone", "reborn"):
            server.create(NODES, "", name)
        async with ReflectedStore(server, NODES) as reflected:
            await reflected.until_live()
            same, before = reflected.store.get("", "same"), {obj.name: obj.uid for obj in reflected.store}
            reflected.heard.clear()
            server.hold(NODES)
            server.update(NODES, "", "changed", metadata={"labels": {"a": "b"}})
            server.delete(NODES, "", "gone")
            server.delete(NODES, "", "reborn")
            server.create(NODES, "", "reborn")
            server.create(NODES, "", "new")
            server.compact()
            server.hold(NODES, held=False)
            await reflected.until(reflected.equals_server, pushing=1.0)
            await reflected.until_live()

            assert reflected.reflector.relists == {"start": 1, "gone": 1}
            assert reflected.store.get("", "same") is same
            told = {(old and old.uid, new and new.uid) for old, new in reflected.heard}
            after = {obj.name: obj.uid for obj in reflected.store}
            assert told == {
                (before["changed"], after["changed"]),
                (before["gone"], None),
                (before["reborn"], None),
                (None, after["reborn"]),
                (None, after["new"]),
            }
            assert len(reflected.heard) == 5, "each change is heard once"


async def test_half_a_list_removes_nothing():
    async with WatchServer(PODS) as server:
        for number in range(6):
            server.create(PODS, "default", f"p{number}")
        async with ReflectedStore(server, PODS, page_size=2) as reflected:
            await reflected.until_live()
            server.hold(PODS)
            server.delete(PODS, "default", "p5")
            server.create(PODS, "default", "p6")
            server.compact()
            # Each list gets as far as its second page and then waits there, refused.
            server.answer(PODS, "page", *[Answer(503)] * 8)
            server.hold(PODS, held=False)
            await reflected.until(lambda: len(server[PODS].lists()) > 4, pushing=1.0)
            assert reflected.names() >= {f"p{number}" for number in range(6)}
            assert not reflected.store.synced
            assert "503" in reflected.reflector.problem

            await reflected.until(reflected.equals_server, pushing=30.0)
            await reflected.until_live()
            assert reflected.reflector.problem == ""


async def test_an_expired_continue_token_starts_the_list_anew():
    async with WatchServer(PODS) as server:
        for number in range(6):
            server.create(PODS, "default", f"p{number}")
        server.answer(PODS, "page", Answer(410, "Expired"))
        async with ReflectedStore(server, PODS, page_size=2) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            assert reflected.reflector.relists == {"start": 1, "expired": 1}


CUT = Answer(200, body=b'{"metadata":{"resourceVersion":"9999"},"items":[{"metadata":{"name":"p0"}},{"meta', cut=True)


@pytest.mark.parametrize("answer", [CUT, Answer(200, body=CUT.body), Answer(504, "Timeout")])
async def test_whole_lists_that_never_come_to_their_end_are_asked_for_in_pages(answer):
    async with WatchServer(PODS) as server:
        for number in range(6):
            server.create(PODS, "default", f"p{number}", metadata={"uid": f"uid-{number}"})
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.answer(PODS, "list", answer, answer)
            server.fail_watches(PODS, 410, "Expired")
            await reflected.until(lambda: reflected.reflector.relists["retry"] >= 1, pushing=0.5)
            assert reflected.names() == {f"p{number}" for number in range(6)}
            await reflected.until_live()
            assert reflected.equals_server()
            assert [params.get("limit") for params in server[PODS].lists()] == [None, None, None, "500"]


async def test_tokens_that_always_expire_end_in_a_list_without_pages():
    async with WatchServer(PODS) as server:
        for number in range(6):
            server.create(PODS, "default", f"p{number}")
        server.answer(PODS, "page", *[Answer(410, "Expired")] * 1000)
        async with ReflectedStore(server, PODS, page_size=2) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            assert "limit" not in server[PODS].lists()[-1]


async def test_a_list_older_than_what_was_seen_is_refused():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            server.lag(PODS)  # from here on, lists show a pod that …
            server.delete(PODS, "default", "a")  # … is gone, and do not show one that …
            server.create(PODS, "default", "b")  # … is there
            await reflected.until(lambda: reflected.names() == {"b"})
            server.hold(PODS)
            server.compact()
            server.cut_watches(PODS)
            server.hold(PODS, held=False)
            await reflected.until(lambda: reflected.reflector.relists["stale"] >= 3, pushing=5.0)
            assert reflected.names() == {"b"}
            assert not reflected.store.synced
            assert "which it sent before" in reflected.reflector.problem

            server.lag(PODS, lagging=False)
            await reflected.until_live()
            assert reflected.names() == {"b"}


async def test_a_list_older_than_one_that_broke_is_refused():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "a")
        server.lag(PODS)
        server.delete(PODS, "default", "a")
        new = server.create(PODS, "default", "b")
        page = {"metadata": {"resourceVersion": server.version, "continue": "more"}, "items": [new]}
        server.answer(PODS, "list", Answer(200, body=json.dumps(page).encode()))
        server.answer(PODS, "page", Answer(500))
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until(lambda: reflected.reflector.relists["stale"] >= 2, pushing=5.0)
            assert reflected.names() == {"b"}, "the new state was shown, if only in half a list"
            server.lag(PODS, lagging=False)
            await reflected.until_live()
            assert reflected.names() == {"b"}
