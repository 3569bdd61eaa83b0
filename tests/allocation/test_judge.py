"""The judge of the other tests condemns what must be condemned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.allocation.judge import nothing_taken_away, nothing_twice
from tests.faults.history import History, Revision
from tests.faults.upstream import Json

CONTAINERS = "/apis/weka.weka.io/v1alpha1/namespaces/ns/wekacontainers"


class Told(History):
    """A history that a test tells: each revision changes one container."""

    def __init__(self, *items: Json) -> None:
        self._start = {}
        self._items = items

    def revisions(self, collection: str = "") -> list[Revision]:
        return [Revision(number, CONTAINERS, "MODIFIED", item) for number, item in enumerate(self._items, 1)]


def item(name: str, **allocations: Any) -> Json:
    meta = {"name": name, "namespace": "ns", "uid": name}
    return {"metadata": meta, "spec": {"nodeAffinity": "n1"}, "status": {"allocations": allocations}}


def part(serial: str, uuid: str) -> Json:
    return {"virtualUUID": uuid, "serial": serial, "capacityGiB": 1}


@pytest.mark.parametrize(
    "other",
    [
        item("b", drives=["S2", "S1"]),
        item("b", virtualDrives=[part("S1", "v2")]),
        item("b", virtualDrives=[part("S9", "v1")]),
        item("b", wekaPort=35099),
        item("b", agentPort=35000),
    ],
    ids=["drive", "whole and shared", "virtual drive", "range", "single port"],
)
def test_given_twice(other: Json) -> None:
    first = item("a", drives=["S1"], virtualDrives=[part("S8", "v1")], wekaPort=35000, agentPort=35300)
    nothing_twice(Told(first, item("b", drives=["S2"], virtualDrives=[part("S8", "v2")], wekaPort=35100)))
    with pytest.raises(AssertionError, match="S1"):
        nothing_twice(Told(first, other))


@pytest.mark.parametrize("later", [{"drives": ["S2"], "wekaPort": 1}, {"drives": ["S1"], "wekaPort": 2}])
def test_taken_away(later: Json) -> None:
    first = item("a", drives=["S1"], wekaPort=1)
    nothing_taken_away(Told(first, item("a", drives=["S1", "S2"], wekaPort=1)))
    with pytest.raises(AssertionError, match="S2"):
        nothing_taken_away(Told(first, item("a", **later)))
