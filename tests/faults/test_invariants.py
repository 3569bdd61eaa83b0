"""The rules of safety find what they are there to find: each is shown a breach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from plimsoll.kube.cache.store import Store, View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import CONFIGMAPS
from tests.faults import invariants
from tests.faults.calls import Call
from tests.faults.example import SEEN
from tests.faults.history import History, Revision
from tests.faults.record import Record
from tests.faults.scene import Scene
from tests.faults.upstream import Direct, Json

PODS = "/api/v1/namespaces/shop/pods"
MAPS = "/api/v1/namespaces/shop/configmaps"


def pod(name: str, *, uid: str = "", ready: bool = True, **metadata: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": uid or name, "labels": {"app": "web"}, **metadata},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def history(*changes: tuple[str, str, Json]) -> History:
    """A history of (collection, change, object), one revision after the other."""
    found = History(cast("Direct", None), [PODS, MAPS])
    for version, (collection, change, item) in enumerate(changes, start=1):
        found._seen[collection].append(Revision(version, collection, change, item))
    return found


def record(*calls: tuple[Call, int]) -> Record:
    """A record of calls and the server's answers to them."""
    found = Record()
    for call, answered in calls:
        exchange = found.begin(call)
        exchange.told = exchange.answered = answered
        found.end(exchange)
    return found


def scene(*changes: tuple[str, str, Json]) -> Scene:
    found = object.__new__(Scene)
    found.namespace, found.history = "shop", history(*changes)
    return found


def eviction(name: str, uid: str) -> Call:
    body = {"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {}
    return Call("create", "pods", "eviction", "shop", name, body=json.dumps(body).encode(), link="a")


def deletion(resource: str, uid: str) -> Call:
    body = json.dumps({"preconditions": {"uid": uid}} if uid else {}).encode()
    return Call("delete", resource, "", "shop", "x", body=body, link="a")


LISTS = [(Call("list", kind, link="a"), 200) for kind in ("pods", "configmaps", "nodes")]
STALE_LISTS = [(Call("list", kind, params={"resourceVersion": "0"}, link="a"), 200) for kind in ("pods", "nodes")]
THREE = [(PODS, "ADDED", pod(name)) for name in ("a", "b", "c")]


def going(name: str) -> tuple[str, str, Json]:
    return (PODS, "MODIFIED", pod(name, deletionTimestamp="2026-01-01T00:00:00Z"))


def marked(name: str, mark: str) -> tuple[str, str, Json]:
    return (PODS, "MODIFIED", pod(name, annotations={SEEN: mark}))


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            invariants.destructive_acts_name_a_uid,
            lambda: record((eviction("web-1", "u"), 201), (deletion("configmaps", "u"), 200)),
            lambda: record((eviction("web-1", ""), 201)),
        ),
        (
            invariants.destructive_acts_name_a_uid,
            lambda: record((deletion("configmaps", "u"), 200)),
            lambda: record((deletion("pods", "u"), 200)),
        ),
        (
            invariants.changes_insist_on_what_was_seen,
            lambda: record((Call("patch", "pods", body=b'{"metadata":{"uid":"u","resourceVersion":"7"}}'), 200)),
            lambda: record((Call("patch", "pods", body=b'{"metadata":{"uid":"u"}}'), 200)),
        ),
        (
            invariants.evicted_once,
            lambda: record((eviction("web-1", "u"), 201), (eviction("web-1", "v"), 201), (eviction("web-1", "v"), 409)),
            lambda: record((eviction("web-1", "u"), 201), (eviction("web-1", "u"), 201)),
        ),
        (
            invariants.listed_before_destroying,
            lambda: record(*LISTS, (eviction("web-1", "u"), 201)),
            lambda: record(*STALE_LISTS, (eviction("web-1", "u"), 201)),
        ),
        (
            invariants.one_pod_at_a_time,
            lambda: scene(*THREE, going("a"), (PODS, "DELETED", pod("a")), (PODS, "ADDED", pod("d")), going("b")),
            lambda: scene(*THREE, going("a"), going("b")),
        ),
        (
            invariants.one_pod_at_a_time,
            lambda: scene(*THREE, going("a"), (PODS, "ADDED", pod("d", ready=False))),
            lambda: scene(*THREE, going("a"), (PODS, "ADDED", pod("d", ready=False)), going("b")),
        ),
        (
            lambda found: invariants.created_once(found, MAPS, "m"),
            lambda: history((MAPS, "ADDED", pod("m"))),
            lambda: history((MAPS, "ADDED", pod("m")), (MAPS, "DELETED", pod("m")), (MAPS, "ADDED", pod("m"))),
        ),
        (
            lambda found: invariants.pods_were_marked_once(found, PODS),
            lambda: history(*THREE, marked("a", "a"), marked("a", "a")),
            lambda: history(*THREE, marked("a", "a"), marked("a", "b")),
        ),
    ],
)
async def test_a_breach_is_found(check: Callable[[Any], None], good: Callable[[], Any], bad: Callable[[], Any]) -> None:
    check(good())
    with pytest.raises(AssertionError):
        check(bad())


def test_a_view_that_goes_backwards_is_found() -> None:
    def at(version: str) -> ConfigMap:
        return convert({"metadata": {"name": "m", "namespace": "shop", "resourceVersion": version}}, ConfigMap)

    store: Store[ConfigMap] = Store(CONFIGMAPS)
    watched = invariants.NeverBackwards(View({CONFIGMAPS: store}))
    for version in ("9", "10"):
        store.put(at(version))
    assert watched.violations == []
    store.put(at("9"))
    assert watched.violations == ["ConfigMap/shop/m went from 10 back to 9"]


async def test_the_state_after_each_revision() -> None:
    found = history(*THREE, (PODS, "DELETED", pod("b")))
    names = [sorted(name for _, _, name in state) for _, state in found.states()]
    assert names == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"]]


async def test_waiting_for_the_record_ends_with_what_was_awaited_or_says_what_there_was() -> None:
    found = Record()
    waiting = asyncio.create_task(found.until(lambda record: len(record) == 1))
    await asyncio.sleep(0)
    found.begin(Call("list", "pods"))
    await waiting
    with pytest.raises(AssertionError, match="list pods"):
        await found.until(lambda record: len(record) == 2, seconds=0.01)
