"""A person lowers `maxNodes` or `desiredNodes`: the surplus goes, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.nodegroups.types import find_condition
from tests.nodegroups.world import World

QUICK: dict[str, Any] = {"scaleDownCooldown": "1s"}


def five_nodes(**spec: Any) -> World:
    world = World()
    world.group(minNodes=0, maxNodes=9, desiredNodes=5, **QUICK, **spec)
    world.run(60)
    assert len(world.members()) == 5
    return world


def test_lowering_the_maximum_removes_the_surplus_and_no_more() -> None:
    world = five_nodes()
    world.change_group(maxNodes=3, desiredNodes=None)
    world.formerly_allowed["workers"] = 9
    world.run(240)
    assert len(world.members()) == 3, "they are underutilized for four minutes, not for ten"


@pytest.mark.parametrize("restart", [False, True])
def test_lowering_the_desired_count_removes_the_difference_at_once(restart: bool) -> None:
    world = five_nodes()
    world.change_group(desiredNodes=3)
    world.run(30)
    if restart:
        world.restart()
    world.run(210)
    assert len(world.members()) == 3
    assert world.the_group().status.target_nodes is None, "the reduction is over"


def test_pods_that_need_the_nodes_keep_them() -> None:
    world = five_nodes()
    world.workload("web", 10)  # two per node
    world.run(30)
    world.change_group(desiredNodes=3)
    world.run(300)
    assert len(world.members()) == 5


def test_a_count_of_zero_is_written() -> None:
    world = World()
    body = world.group()
    world.run(3)
    status = world.the_group().status
    assert (status.current_nodes, status.desired_nodes, status.ready_nodes) == (0, 0, 0)
    assert status.observed_generation == body["metadata"].get("generation", 0)


def test_a_vpsienode_is_in_progress_for_kstatus_until_its_node_is_ready() -> None:
    world = World()
    world.group(minNodes=1)
    world.run(3)
    (member,) = world.members()
    condition = find_condition(member, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Provisioning")
    world.run(30)
    (member,) = world.members()
    condition = find_condition(member, "Ready")
    assert condition is not None
    assert condition.status == "True"
    group = world.the_group()
    assert {one.type: one.status for one in group.status.conditions if one.type in ("Reconciling", "Stalled")} == {
        "Reconciling": "False", "Stalled": "False",
    }  # fmt: skip
