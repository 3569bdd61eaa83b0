"""A list gives the same objects however its bytes are cut and laid out, and half a list is no list."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.cache import list_reader
from plimsoll.kube.cache.list_reader import ListReader
from plimsoll.kube.cache.quarantine import Quarantined, Undecodable
from plimsoll.kube.client.errors import MalformedResponse
from plimsoll.kube.types.meta import CustomObject
from plimsoll.kube.types.resources import NODES, PODS, Resource

CONTAINERS = Resource("weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", CustomObject)

# What begins like an item, inside of one: in a string it is escaped, in a list of objects it is not.
DECEPTIVE: list[dict[str, Any]] = [
    {},
    {"annotations": {"a": '},{"metadata":{"name":"no item"}}'}},
    {"managedFields": [{"metadata": {"x": 1}}, {"metadata": {"y": 2}}, {"metadata": {}}]},
    {"labels": {"ümlaut": "☃" * 5}},
]


def pod(number: int, extra: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": f"p{number}", "namespace": "default", "resourceVersion": str(number), **extra}}


def container(number: int, extra: dict[str, Any]) -> dict[str, Any]:
    """As the API server writes a custom resource: keys in order, so that entries of managedFields begin like the object."""
    entry = {"apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaContainer", "metadata": {}}
    metadata = {"managedFields": [entry, entry], "name": f"c{number}", **extra}
    return {"apiVersion": entry["apiVersion"], "kind": "WekaContainer", "metadata": metadata, "spec": {"port": number}}


def written(items: list[dict[str, Any]] | None, *, custom: bool = False, spaces: bool = False) -> bytes:
    metadata = {"resourceVersion": "77", "continue": "token"}
    body: dict[str, Any] = (
        {"apiVersion": "v1alpha1", "items": items, "kind": "WekaContainerList", "metadata": metadata}
        if custom
        else {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
    )
    text = json.dumps(body, ensure_ascii=False, indent=2 if spaces else None, separators=None if spaces else (",", ":"))
    return text.encode() + b"\n"


def read(resource: Resource[Any], chunks: list[bytes]) -> tuple[list[Any], list[Any], ListReader[Any]]:
    """The objects that came while the list did, those that came at its end, and the reader."""
    reader = ListReader(resource)
    early = [obj for chunk in chunks for obj in reader.feed(chunk)]
    metadata, late = reader.finish()
    assert metadata.resource_version == "77"
    assert metadata.continue_ == "token"
    return early, list(late), reader


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


@given(
    extras=st.lists(st.sampled_from(DECEPTIVE), max_size=6),
    places=st.lists(st.integers(0, 10_000), max_size=12),
    custom=st.booleans(),
    spaces=st.booleans(),
)
def test_any_layout_in_any_chunks(extras, places, custom, spaces):
    make, resource = (container, CONTAINERS) if custom else (pod, PODS)
    items = [make(number, extra) for number, extra in enumerate(extras)]
    early, late, _ = read(resource, cut(written(items, custom=custom, spaces=spaces), places))
    assert [obj.name for obj in early + late] == [item["metadata"]["name"] for item in items]


@pytest.mark.parametrize("custom", [False, True])
def test_objects_come_before_the_list_has_ended(custom):
    make, resource = (container, CONTAINERS) if custom else (pod, PODS)
    items = [make(number, DECEPTIVE[number % len(DECEPTIVE)]) for number in range(20)]
    text = written(items, custom=custom)
    early, late, reader = read(resource, [text[place : place + 50] for place in range(0, len(text), 50)])
    assert len(early) == 19, "only what comes last cannot be known to be whole"
    assert len(late) == 1
    assert (reader.metadata is None) == custom, "a list of custom resources names its version last"


@pytest.mark.parametrize("items", [[], None])
def test_nothing(items):
    assert read(PODS, [written(items)])[:2] == ([], [])


@pytest.mark.parametrize("short_of", [1, 2, 3, 10, 40, 200])
def test_half_a_list_is_no_list(short_of):
    text = written([pod(number, {}) for number in range(4)]).strip()
    with pytest.raises(MalformedResponse, match="pods: not a complete list"):
        read(PODS, [text[:-short_of]])


def test_something_else_is_no_list():
    with pytest.raises(MalformedResponse, match="unhelpful"):
        read(PODS, [b"<html>an unhelpful proxy</html>"])


@pytest.mark.parametrize("spaces", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_object_that_cannot_be_decoded_is_quarantined_alone(place, spaces):
    items = [{"metadata": {"name": f"n{number}"}, "status": {"allocatable": {"cpu": "1"}}} for number in range(3)]
    items[place]["status"] = {"allocatable": {"cpu": "many"}}
    early, late, _ = read(NODES, [written(items, spaces=spaces)])
    found = early + late
    assert [obj.metadata.name for obj in found] == ["n0", "n1", "n2"]
    assert [isinstance(obj, Quarantined) for obj in found] == [number == place for number in range(3)]
    assert f"Node n{place} cannot be decoded" in found[place].problem
    assert "'many' is not a quantity" in found[place].problem


@pytest.mark.parametrize("place", [0, 2])
def test_an_object_that_is_nested_too_deeply(place):
    items = [b'{"metadata":{"name":"n%d"}}' % number for number in range(3)]
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    items[place] = b'{"metadata":{"name":"deep","uid":"u","managedFields":' + deep + b"}}"
    text = b'{"metadata":{"resourceVersion":"77","continue":"token"},"items":[' + b",".join(items) + b"]}"
    early, late, _ = read(NODES, [text])
    found = (early + late)[place]
    assert isinstance(found, Quarantined)
    assert (found.metadata.name, found.uid) == ("deep", "u")
    assert "nested too deeply" in found.problem


def test_an_object_without_a_name_is_told_apart():
    items = [pod(0, {}), {"metadata": {"name": 7}}, pod(2, {})]
    early, late, _ = read(PODS, [written(items)])
    assert [type(obj) for obj in early + late] == [PODS.type, Undecodable, PODS.type]


@pytest.mark.parametrize("spaces", [False, True])
@pytest.mark.parametrize("metadata_first", [True, False])
def test_large_objects_cost_no_more_than_their_bytes(spaces, metadata_first):
    """Each nested `},{"metadata":{` was tried as the end of the item: two objects with 4,000 templates took 4 s."""
    templates = [{"metadata": {"name": f"t{number}"}, "spec": {"x": "y" * 30}} for number in range(4000)]
    body: dict[str, Any] = {"spec": {"volumeClaimTemplates": templates}}
    items = []
    for number in range(6):
        meta = {"metadata": pod(number, {})["metadata"]}
        items.append({**meta, **body} if metadata_first else {**body, **meta})
    text = written(items, spaces=spaces)
    started = time.process_time()
    early, late, _ = read(PODS, [text[place : place + 65536] for place in range(0, len(text), 65536)])
    took = time.process_time() - started
    assert [obj.name for obj in early + late] == [f"p{number}" for number in range(6)]
    assert len(early) == 5, "they come while the list arrives"
    assert took < 1.5, f"{took:.2f} s of CPU for {len(text) / 1e6:.1f} MB"


@pytest.mark.parametrize("spaces", [False, True])
def test_items_that_do_not_begin_alike(spaces):
    items = [pod(0, {}), {"spec": {}, **pod(1, {})}, {"status": {}, **pod(2, {})}, pod(3, {}), pod(4, {})]
    early, late, _ = read(PODS, [written(items, spaces=spaces)])
    assert [obj.name for obj in early + late] == [f"p{number}" for number in range(5)]


def test_an_object_without_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(list_reader, "MAX_OBJECT_BYTES", 10_000)
    reader = ListReader(PODS)
    endless = written([pod(0, {})])[:-20] + (b'"' + b"x" * 1000 + b'",') * 20
    with pytest.raises(MalformedResponse, match="exceeds"):
        list(reader.feed(endless))
