"""The witness notices drives and ports that are given twice or taken away, and writes that would not notice it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.simulate.custom_kinds import CONTAINERS
from tests.simulate.villain import Deed, Villain, container, rules_broken


async def _two(villain: Villain, **first: Any) -> None:
    villain.world.cluster.load(CONTAINERS, [container("one", allocations=first), container("two")])


async def _gives(villain: Villain, name: str, *, guarded: bool = True, **allocations: Any) -> None:
    found = villain.world.cluster.api.storage.get(CONTAINERS, "default", name)
    assert found is not None
    guards = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    body = {"metadata": guards if guarded else {}, "status": {"allocations": allocations}}
    path = f"/apis/weka.weka.io/v1alpha1/namespaces/default/wekacontainers/{name}/status"
    assert await villain.asks("PATCH", path, body) == 200


async def properly(villain: Villain) -> None:
    await _two(villain, drives=["SN-1"], wekaPort=35000, agentPort=35300)
    await _gives(villain, "two", drives=["SN-2"], wekaPort=35100, agentPort=35301)
    await _gives(villain, "two", drives=["SN-2", "SN-3"], wekaPort=35100, agentPort=35301)


async def a_drive_twice(villain: Villain) -> None:
    await _two(villain, drives=["SN-1"])
    await _gives(villain, "two", drives=["SN-1"])


async def ports_that_overlap(villain: Villain) -> None:
    await _two(villain, wekaPort=35000)
    await _gives(villain, "two", wekaPort=35050)


async def a_disk_whole_and_in_parts(villain: Villain) -> None:
    await _two(villain, drives=["SN-1"])
    await _gives(villain, "two", virtualDrives=[{"virtualUUID": "v", "physicalUUID": "p", "serial": "SN-1"}])


async def a_drive_taken_away(villain: Villain) -> None:
    await _two(villain, drives=["SN-1", "SN-2"])
    await _gives(villain, "one", drives=["SN-1"])


async def without_saying_which(villain: Villain) -> None:
    await _two(villain)
    await _gives(villain, "two", guarded=False, drives=["SN-1"])


@pytest.mark.parametrize(
    ("deed", "rules"),
    [
        (properly, set()),
        (a_drive_twice, {"S1"}),
        (ports_that_overlap, {"S1"}),
        (a_disk_whole_and_in_parts, {"S1"}),
        (a_drive_taken_away, {"S2"}),
        (without_saying_which, {"S3"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_allocations_are_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules


async def what_someone_else_wipes(villain: Villain) -> None:
    """People may: the container starts anew. It is not the operator that took it away."""
    await _two(villain, drives=["SN-1"])
    storage = villain.world.cluster.api.storage
    found = storage.get(CONTAINERS, "default", "one")
    assert found is not None
    storage.put(CONTAINERS, {**found, "status": {}})
    assert storage.get(kinds.NAMESPACES, "", "default") is not None


def test_what_people_do_is_not_the_operators_fault():
    assert rules_broken(what_someone_else_wipes) == set()
