"""Fault 16: a status that is lost stops the node until a person says what its container holds."""

from __future__ import annotations

import asyncio
from typing import Any

from click.testing import Result

from tests.allocation.environment import Stage
from tests.cli.command import plimsoll
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane


async def command(stage: Stage, control_plane: ControlPlane, *arguments: str) -> Result:
    """The administrator's command, past the proxy, with the leases where this test has them."""
    options = ("--kubeconfig", str(control_plane.kubeconfig), "--set", f"allocation.namespace={stage.namespace}")
    return await asyncio.to_thread(plimsoll, "allocation", *arguments, *options)


async def test_lost_and_restored(stage: Stage, control_plane: ControlPlane) -> None:
    node = await stage.node("S1", "S2", "S3")
    title = f"{stage.namespace}/lost"
    async with stage.operator() as operator:
        lost = await stage.container("lost", node=node, drives=2)
        await stage.all_served(["lost"])
        held = await stage.allocations("lost")
        await stage.pod_of(lost, node)
        await stage.judged()
        await stage.set_status("lost", None)
        await stage.own_doing()
        condition = await eventually(lambda: _reason(stage, "lost", "AllocationLost"), "the loss is noticed")
        assert f"plimsoll allocation restore {title}" in condition["message"]
        await stage.event("AllocationLost")
        await stage.container("waits", node=node, drives=1)
        event = await stage.event("AllocationHeldUp")
        assert title in event["note"]
        await operator.look()
        assert await stage.allocations("waits") == {}

        refused = await command(stage, control_plane, "restore", title, "--drives", "S1", "--yes", "--weka-port", "0")
        assert refused.exit_code == 0, refused.output
        again = await command(stage, control_plane, "restore", title, "--drives", "S2", "--yes")
        assert again.exit_code == 1
        assert "already holds an allocation" in again.output
        # Two drives were asked for and one was confirmed: it grows, and the one who waited is served.
        await stage.all_served(["lost", "waits"])
    now = await stage.allocations("lost")
    assert now["drives"][0] == held["drives"][0] == "S1"


async def test_what_another_holds_is_not_restored(stage: Stage, control_plane: ControlPlane) -> None:
    node = await stage.node("S1", "S2")
    await stage.container("holder", node=node, drives=1, status={"status": "x", "allocations": {"drives": ["S1"]}})
    await stage.container("lost", node=node, drives=1)
    title = f"{stage.namespace}/lost"
    result = await command(stage, control_plane, "restore", title, "--drives", "S1", "--yes")
    assert result.exit_code == 1
    assert f"drive S1 is held by {stage.namespace}/holder" in result.output
    assert await stage.allocations("lost") == {}
    lease = await stage.lease(node)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "", "the lease was taken, and given back"
    asked = await command(stage, control_plane, "restore", title, "--drives", "S2")
    assert asked.exit_code == 1, "nobody confirmed it"
    assert await stage.allocations("lost") == {}


async def _reason(stage: Stage, name: str, reason: str) -> dict[str, Any] | None:
    condition = await stage.condition(name)
    return condition if condition.get("reason") == reason else None
