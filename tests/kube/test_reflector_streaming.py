"""Lists that come as the first events of a watch, where the server has them."""

from __future__ import annotations

from plimsoll.kube.types.resources import PODS
from tests.kube.reflected_store import ReflectedStore
from tests.kube.watch_server import Answer, WatchServer


async def test_the_list_and_the_watch_are_one_request():
    async with WatchServer(PODS) as server:
        for number in range(5):
            server.create(PODS, "default", f"p{number}")
        async with ReflectedStore(server, PODS, streaming=True) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            server.delete(PODS, "default", "p0")
            await reflected.until(reflected.equals_server)
            (params,) = server[PODS].requests
            assert params["sendInitialEvents"] == "true"
            assert params["resourceVersionMatch"] == "NotOlderThan"
            assert params["resourceVersion"] == "", "the newest state, not any that a cache may have"


async def test_a_server_without_them_is_asked_for_pages():
    async with WatchServer(PODS, streaming_lists=False) as server:
        server.create(PODS, "default", "a")
        async with ReflectedStore(server, PODS, streaming=True) as reflected:
            await reflected.until_live()
            assert reflected.equals_server()
            server.compact()
            server.cut_watches(PODS)
            await reflected.until(lambda: reflected.reflector.relists["gone"] == 1, pushing=1.0)
            await reflected.until_live()
            assert sum("sendInitialEvents" in params for params in server[PODS].watches()) == 1, "it is asked once"


async def test_a_relist_removes_what_the_stream_did_not_name():
    async with WatchServer(PODS) as server:
        for name in "abc":
            server.create(PODS, "default", name)
        async with ReflectedStore(server, PODS, streaming=True) as reflected:
            await reflected.until_live()
            server.hold(PODS)
            server.delete(PODS, "default", "b")
            server.compact()
            server.hold(PODS, held=False)
            await reflected.until(reflected.equals_server)
            assert [(before and before.name, after) for before, after in reflected.heard[3:]] == [("b", None)]


async def test_a_stream_that_is_cut_before_its_end_removes_nothing():
    async with WatchServer(PODS) as server:
        for name in "abc":
            server.create(PODS, "default", name)
        async with ReflectedStore(server, PODS, streaming=True) as reflected:
            await reflected.until_live()
            one = b'{"type":"ADDED","object":{"metadata":{"namespace":"default","name":"a","uid":"uid-1"}}}\n'
            server.answer(PODS, "watch", Answer(200, body=one), Answer(200, body=one))
            server.fail_watches(PODS, 410, "Expired")
            await reflected.until(lambda: reflected.reflector.relists["retry"] == 1, pushing=1.0)
            assert not reflected.store.synced
            assert reflected.names() == {"a", "b", "c"}
            # Twice is enough: the third time the list is asked for in pages.
            await reflected.until_live()
            assert reflected.equals_server()
            assert len(server[PODS].lists()) == 1
