"""Full collections come at chosen moments, and what a store holds is not walked by any."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from plimsoll.kube.codec import decode
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, Resource
from plimsoll.runtime.gc_tuning import scheduled_gc
from tests.clocks import PushedClock
from tests.eventually import eventually


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class Knot:
    """Garbage that only a collection finds."""

    left = 0

    def __init__(self) -> None:
        self.itself = self
        Knot.left += 1

    def __del__(self) -> None:
        Knot.left -= 1


async def test_no_full_collection_comes_by_itself_and_one_does_every_ten_minutes() -> None:
    complete, clock = asyncio.Event(), PushedClock()
    async with scheduled_gc(complete.is_set, clock):
        assert gc.get_threshold()[2] >= 1_000_000
        gc.collect(1)
        knot = Knot()
        gc.collect(0)
        gc.collect(1)  # old now: only a full collection walks it
        del knot
        await asyncio.sleep(0)
        assert Knot.left == 1
        complete.set()
        clock.push(1)
        await eventually(lambda: Knot.left == 0)
        knot = Knot()
        gc.collect(1)
        del knot
        clock.push(601)
        await eventually(lambda: Knot.left == 0)


POD = {
    "metadata": {"name": "a", "labels": {"app": "web"}, "ownerReferences": [{"kind": "X", "name": "x", "uid": "u"}]},
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}],
        "tolerations": [{"key": "spot"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
NODE = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
DEPLOYMENT = {
    "metadata": {"name": "d"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {**POD}},
}


@pytest.mark.parametrize(("resource", "document"), [(PODS, POD), (NODES, NODE), (DEPLOYMENTS, DEPLOYMENT)])
def test_a_decoded_object_is_walked_by_no_collection(resource: Resource[Any], document: dict[str, Any]) -> None:
    """And may be so: it holds structs, tuples, mappings and plain values, none of which leads back."""
    found = list(_parts(decode(json.dumps(document).encode(), resource.type)))
    structs = [part for part in found if isinstance(part, Struct)]
    assert len(structs) >= 4
    assert not any(gc.is_tracked(struct) for struct in structs)
    assert not any(isinstance(part, list | set) for part in found)


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _parts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _parts(item)
