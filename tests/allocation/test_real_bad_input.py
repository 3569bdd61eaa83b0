"""What cannot be followed is said on the container and in an event, with field and value; the others go on."""

from __future__ import annotations

from functools import partial

from plimsoll.controllers.allocation.inventory import DRIVES
from tests.allocation.environment import Stage
from tests.eventually import eventually


async def test_bad_specs_and_a_missing_node(stage: Stage) -> None:
    node = await stage.node("S1")
    await stage.container("negative", node=node, drives=-4)
    await stage.container("ports", node=node, spec={"portRange": {"basePort": 35000, "portRange": 1_000_000}})
    await stage.container("nowhere", node="no-such-node", drives=1)
    await stage.container("good", node=node, drives=1)
    async with stage.operator() as operator:
        await stage.all_served(["good"])
        for name, reason, said in (
            ("negative", "InvalidSpec", "spec.numDrives is -4"),
            ("ports", "InvalidSpec", "spec.portRange.portRange is 1000000"),
            ("nowhere", "NodeNotFound", "no-such-node"),
        ):
            condition = await eventually(partial(stage.condition, name), f"a condition on {name}")
            assert (condition["status"], condition["reason"]) == ("False", reason)
            assert said in condition["message"]
        notes = [event["note"] for event in [*await stage.events("InvalidSpec"), await stage.event("NodeNotFound")]]
        assert any("spec.numDrives is -4" in note for note in notes)
        await operator.idle()
        mark = len(stage.record)
        await operator.look()
        calls = stage.calls(since=mark)
        calls.pop("list leases", None)  # the sweep for leases of nodes that are gone keeps a pace of its own
        assert calls.total() == 0, "it is said once"
        await stage.direct.patch(f"{stage.path}/negative", {"spec": {"numDrives": 0}})
        await stage.all_served(["negative"])
    assert (await stage.condition("negative"))["status"] == "True"


async def test_a_node_whose_drives_cannot_be_read(stage: Stage) -> None:
    node = await stage.node("S1")
    await stage.annotate_node(node, {DRIVES: '["S1", "S1"]'})
    await stage.container("drives", node=node, drives=1)
    await stage.container("ports", node=node, mode="compute")
    async with stage.operator():
        await stage.all_served(["ports"])
        condition = await eventually(lambda: stage.condition("drives"), "a condition")
        assert condition["reason"] == "InvalidInventory"
        assert "weka.io/weka-drives of node" in condition["message"]
        assert '"S1" 2 times' in condition["message"]
        await stage.annotate_node(node, {DRIVES: '["S1"]'})
        await stage.all_served(["drives"])
