"""An object that cannot be decoded costs the view of itself, and not the view of its kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog

from plimsoll.kube.cache.quarantine import ObjectDecoder, Quarantined, Undecodable, members
from plimsoll.kube.cache.store import MultiNamespaceStore, Store, View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import BY_NODE, BY_OWNER, CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, owner_key
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.snapshot_cache import SnapshotCache
from tests import build
from tests.kube.reflected_store import ReflectedStore, owned_by
from tests.kube.watch_server import WatchServer

BAD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}], "nodeName": "n1"}
PENDING = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}
GOOD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": "n1"}


def names(reflected: ReflectedStore[Any]) -> dict[str, str]:
    return {name: envelope.metadata.name for (_, name), envelope in reflected.store.quarantined.items()}


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_list_with_one_bad_object_is_a_list(streaming: bool):
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "good", spec=GOOD)
        server.create(PODS, "default", "bad", spec=BAD, metadata=owned_by("rs-1"))
        async with ReflectedStore(server, PODS, streaming=streaming) as reflected:
            await reflected.until_live()
            assert reflected.names() == {"good", "bad"}, "a stand-in takes the place of a pod on a node"
            assert names(reflected) == {"bad": "bad"}
            (stand_in,) = reflected.store.by(BY_OWNER, owner_key("default", "rs-1"))
            assert stand_in in reflected.store.by(BY_NODE, "n1")
            (container,) = stand_in.spec.containers
            assert container.resources.requests["cpu"].units >= 1_000_000
            assert container.resources.requests["memory"].units >= 2**60
            envelope = reflected.store.quarantined["default", "bad"]
            assert envelope.node_name == "n1"
            assert envelope.uid == server[PODS].objects["default", "bad"]["metadata"]["uid"]
            assert envelope.metadata.controller is not None
            assert envelope.metadata.controller.uid == "rs-1"
            assert envelope.metadata.resource_version
            assert reflected.store.unreadable == 0


async def test_the_view_stays_live_and_goes_on_when_an_object_becomes_undecodable():
    async with WatchServer(PODS) as server, ReflectedStore(server, PODS) as reflected:
        await reflected.until_live()
        with structlog.testing.capture_logs() as logs:
            server.create(PODS, "default", "bad", spec=PENDING)
            for number in range(3):
                server.update(PODS, "default", "bad", metadata={"annotations": {"n": str(number)}})
            server.create(PODS, "default", "good", spec=GOOD)
            await reflected.until(lambda: "good" in reflected.names())
        assert reflected.names() == {"good"}, "it is not on a node, so it fills none"
        assert reflected.store.synced
        assert reflected.reflector.problem == ""
        assert reflected.reflector.relists == {"start": 1}
        assert names(reflected) == {"bad": "bad"}
        told = [entry for entry in logs if "quarantine" in entry["event"]]
        assert len(told) == 1, "once per object, not once per change"
        assert "Pod default/bad cannot be decoded" in told[0]["problem"]
        server.update(PODS, "default", "bad", spec=GOOD)
        await reflected.until(lambda: reflected.names() == {"good", "bad"})
        assert names(reflected) == {}
        server.update(PODS, "default", "bad", spec=PENDING)
        await reflected.until(lambda: names(reflected) == {"bad": "bad"})
        assert reflected.names() == {"good", "bad"}, "its last decodable state is still the best that is known of it"
        server.delete(PODS, "default", "bad")
        await reflected.until(lambda: reflected.names() == {"good"})
        assert names(reflected) == {}


async def test_what_a_later_list_does_not_name_leaves_the_quarantine():
    async with WatchServer(PODS) as server:
        server.create(PODS, "default", "bad", spec=BAD)
        async with ReflectedStore(server, PODS) as reflected:
            await reflected.until_live()
            assert names(reflected) == {"bad": "bad"}
            server.end_watches(PODS)
            server.delete(PODS, "default", "bad")
            await reflected.until(lambda: names(reflected) == {}, pushing=1.0)


async def test_an_object_without_readable_metadata_is_counted_until_a_list_is_without_one():
    async with WatchServer(NODES) as server, ReflectedStore(server, NODES) as reflected:
        await reflected.until_live()
        server.say(NODES, json.dumps({"type": "ADDED", "object": {"metadata": {"name": 7}}}).encode())
        await reflected.until(lambda: reflected.store.unreadable == 1)
        assert reflected.store.synced
        server.create(NODES, "", "later")
        await reflected.until(lambda: reflected.names() == {"later"})


def test_the_envelope_is_read_part_by_part():
    metadata = {
        "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "9", "generation": "not a number",
        "labels": {"x": "y"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}],
    }  # fmt: skip
    body = {"metadata": metadata, "spec": {"nodeName": "n", "containers": {}}, "status": {"odd": "}{,:"}}
    found = ObjectDecoder(PODS).decode(json.dumps(body).encode())
    assert isinstance(found, Quarantined)
    kept = found.metadata
    assert (kept.name, kept.namespace, kept.uid, kept.resource_version) == ("a", "ns", "u", "9")
    assert kept.labels == {"x": "y"}
    assert [owner.uid for owner in kept.owner_references] == ["o"]
    assert found.node_name == "n"


@pytest.mark.parametrize("metadata", [None, 7, {}, {"name": 7}, {"name": ""}, {"uid": "u"}])
def test_without_a_name_there_is_no_envelope(metadata: Any):
    with pytest.raises(Undecodable, match="one of the pods has no readable metadata"):
        ObjectDecoder(PODS).decode(json.dumps({"metadata": metadata, "spec": 7}).encode())


def test_members_of_an_object():
    value = {"a": {"b": [1, {"c": 2}]}, "d": '}\\",\\"{:', "e": 5, "f": None}
    for text in (json.dumps(value), json.dumps(value, indent=3), json.dumps(value) + " trailing"):
        assert {key: json.loads(part) for key, part in members(text.encode()).items()} == value
    assert members(b'{"a":1,"b":{"c"') == {"a": b"1"}
    assert members(b"[]") == {}
    assert members(b'{"a":1}') == {"a": b"1"}


def test_a_store_of_several_namespaces_has_the_quarantine_of_each():
    parts = {name: Store(PODS) for name in ("a", "b")}
    whole = MultiNamespaceStore(PODS, parts)
    for name, part in parts.items():
        envelope = ObjectDecoder(PODS).decode(
            json.dumps({"metadata": {"name": "p", "namespace": name}, "spec": BAD}).encode()
        )
        assert isinstance(envelope, Quarantined)
        assert part.quarantine(envelope)
        assert not part.quarantine(envelope), "known already"
    parts["a"].unreadable = 2
    assert set(whole.quarantined) == {("a", "p"), ("b", "p")}
    assert whole.unreadable == 2
    assert set(whole.copy().quarantined) == {("a", "p"), ("b", "p")}


def test_nothing_more_is_placed_on_a_node_with_a_pod_of_unknown_size():
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}}
    small = convert({"metadata": {"name": "small", "namespace": "default"}, "spec": {"containers": [container]}}, Pod)
    node = build.node("n1")
    view = View.of({NODES: [node], PODS: [], NAMESPACES: [], CLAIMS: [], VOLUMES: []})
    assert fits(SnapshotCache().of(view), small, "n1") is None
    body = {"metadata": {"name": "bad", "namespace": "default", "uid": "u"}, "spec": BAD}
    envelope = ObjectDecoder(PODS).decode(json.dumps(body).encode())
    assert isinstance(envelope, Quarantined)
    cache = SnapshotCache()
    cache.of(view)
    view[PODS].quarantine(envelope)
    assert fits(cache.of(view), small, "n1") is not None, "also where a snapshot is kept up to date"
    assert fits(SnapshotCache().of(view), small, "n1") is not None
    view[PODS].remove("default", "bad")
    assert fits(cache.of(view), small, "n1") is None
