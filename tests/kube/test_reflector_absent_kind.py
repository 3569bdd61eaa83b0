"""A kind that nobody has installed: no objects of it, and no trouble. One that was there and is not: trouble."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from plimsoll.kube.types.resources import NODES
from tests.kube.reflected_store import ReflectedStore
from tests.kube.watch_server import Answer, WatchServer

THINGS = replace(NODES, may_be_absent=True)
ABSENT = [Answer(404, "NotFound")] * 1000


async def test_an_empty_view_of_it_is_live_and_is_told_once():
    async with WatchServer(THINGS) as server:
        server.answer(THINGS, "list", *ABSENT)
        with capture_logs() as logs:
            async with ReflectedStore(server, THINGS) as reflected:
                await reflected.until(lambda: len(server[THINGS].lists()) > 5, pushing=10.0)
                assert reflected.store.synced
                assert reflected.reflector.problem == ""
                assert reflected.reflector.age_seconds() <= 30.0, "the server answers, again and again"
        told = [entry for entry in logs if entry["log_level"] != "debug"]
        assert [entry["event"] for entry in told] == ["kind not installed; waiting for it"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_once_it_is_installed_it_is_followed_and_not_live_before_all_of_it_is_there(streaming: bool):
    async with WatchServer(THINGS) as server:
        for number in range(4):
            server.create(THINGS, "", f"n{number}")
        server.answer(THINGS, "watch" if streaming else "list", *ABSENT)
        live: list[set[str]] = []
        async with ReflectedStore(server, THINGS, streaming=streaming) as reflected:
            reflected.store.listen(lambda *_: live.append(reflected.names()) if reflected.store.synced else None)
            await reflected.until(lambda: reflected.store.synced)
            assert reflected.names() == set()
            server.answer_truly()
            await reflected.until(lambda: reflected.names() == {"n0", "n1", "n2", "n3"}, pushing=10.0)
            await reflected.until_live()
            assert live == [], "part of the first list was shown as if it were all"
            server.create(THINGS, "", "n4")
            await reflected.until(lambda: "n4" in reflected.names())


async def test_one_that_was_there_before_is_missed():
    async with WatchServer(THINGS) as server, ReflectedStore(server, THINGS) as reflected:
        server.create(THINGS, "", "n0")
        await reflected.until_live()
        server.answer(THINGS, "watch", *ABSENT)
        server.answer(THINGS, "list", *ABSENT)
        server.cut_watches(THINGS)
        await reflected.until(lambda: not reflected.store.synced, pushing=10.0)
        assert "404" in reflected.reflector.problem
        assert reflected.names() == {"n0"}, "nothing is concluded from it"


async def test_a_kind_that_every_cluster_has_is_missed_at_once():
    async with WatchServer(NODES) as server:
        server.answer(NODES, "list", *ABSENT)
        async with ReflectedStore(server, NODES) as reflected:
            await reflected.until(lambda: len(server[NODES].lists()) > 2, pushing=10.0)
            assert not reflected.store.synced
            assert "404" in reflected.reflector.problem
