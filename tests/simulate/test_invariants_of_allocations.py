"""The invariant checker notices drives and ports that are given twice or taken away, and writes that would not notice it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.simulate.custom_kinds import CONTAINERS
from tests.simulate.rogue_operator import Deed, RogueOperator, container, rules_broken


async def _two(rogue: RogueOperator, **first: Any) -> None:
    rogue.world.cluster.load(CONTAINERS, [container("one", allocations=first), container("two")])


async def _gives(rogue: RogueOperator, name: str, *, guarded: bool = True, **allocations: Any) -> None:
    found = rogue.world.cluster.api.storage.get(CONTAINERS, "default", name)
    assert found is not None
    guards = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    body = {"metadata": guards if guarded else {}, "status": {"allocations": allocations}}
    path = f"/apis/weka.weka.io/v1alpha1/namespaces/default/wekacontainers/{name}/status"
    assert await rogue.asks("PATCH", path, body) == 200


async def properly(rogue: RogueOperator) -> None:
    await _two(rogue, drives=["SN-1"], wekaPort=35000, agentPort=35300)
    await _gives(rogue, "two", drives=["SN-2"], wekaPort=35100, agentPort=35301)
    await _gives(rogue, "two", drives=["SN-2", "SN-3"], wekaPort=35100, agentPort=35301)


async def a_drive_twice(rogue: RogueOperator) -> None:
    await _two(rogue, drives=["SN-1"])
    await _gives(rogue, "two", drives=["SN-1"])


async def ports_that_overlap(rogue: RogueOperator) -> None:
    await _two(rogue, wekaPort=35000)
    await _gives(rogue, "two", wekaPort=35050)


async def a_disk_whole_and_in_parts(rogue: RogueOperator) -> None:
    await _two(rogue, drives=["SN-1"])
    await _gives(rogue, "two", virtualDrives=[{"virtualUUID": "v", "physicalUUID": "p", "serial": "SN-1"}])


async def a_drive_taken_away(rogue: RogueOperator) -> None:
    await _two(rogue, drives=["SN-1", "SN-2"])
    await _gives(rogue, "one", drives=["SN-1"])


async def without_saying_which(rogue: RogueOperator) -> None:
    await _two(rogue)
    await _gives(rogue, "two", guarded=False, drives=["SN-1"])


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


async def what_someone_else_wipes(rogue: RogueOperator) -> None:
    """People may: the container starts anew. It is not the operator that took it away."""
    await _two(rogue, drives=["SN-1"])
    storage = rogue.world.cluster.api.storage
    found = storage.get(CONTAINERS, "default", "one")
    assert found is not None
    storage.put(CONTAINERS, {**found, "status": {}})
    assert storage.get(kinds.NAMESPACES, "", "default") is not None


def test_what_people_do_is_not_the_operators_fault():
    assert rules_broken(what_someone_else_wipes) == set()
