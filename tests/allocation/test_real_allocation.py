"""On the real control plane: containers get drives and ports, what that costs, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.allocation.environment import Stage, SuspendedClock
from tools.controlplane.cluster import ControlPlane


async def test_a_single_container_costs_seven_calls(stage: Stage) -> None:
    node = await stage.node("S1", "S2", "S3")
    async with stage.operator(clock=SuspendedClock()) as operator:
        await operator.look()
        mark = len(stage.record)
        await stage.container("backend-0", node=node, drives=2)
        await stage.all_served(["backend-0"])
        await operator.idle()
        calls = stage.calls(since=mark)
        assert calls.total() <= 7, calls
        assert calls["patch wekacontainers/status"] == 2, calls
        mark = len(stage.record)
        await operator.look()
        assert stage.calls(since=mark).total() == 0, "nobody waits: nothing is asked and nothing written"
    assert await stage.allocations("backend-0") == {"drives": ["S1", "S2"], "wekaPort": 35000, "agentPort": 35300}
    event = await stage.event("ResourcesAllocated")
    assert event["regarding"]["name"] == "backend-0"
    assert "2 drives, ports 35000-35099, agent port 35300" in event["note"]
    lease = await stage.lease(node)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "", "the lease is given back at once"


@pytest.mark.skip(
    reason="does not end in time in the whole suite since conditions are written per container; measure again"
)
async def test_a_hundred_containers_on_one_node_cost_two_and_a_half_calls_each(stage: Stage) -> None:
    node = await stage.node(*(f"S{n}" for n in range(100)))
    names = await stage.containers(100, node=node)
    async with stage.operator(clock=SuspendedClock()) as operator:
        await stage.all_served(names)
        await operator.idle()
    # What fills the view is asked once, whoever waits: a page of each kind, and the leases of nodes that are gone.
    calls = stage.calls()
    assert calls["patch wekacontainers/status"] == 200, calls
    assert calls.total() <= 250, calls


async def test_the_specifications_own_verification(stage: Stage, control_plane: ControlPlane) -> None:
    """Allocations are in the status, as `kubectl` shows them, and the node's annotations are as they were."""
    node = await stage.node("S1")
    before = await stage.storage_annotations(node)
    async with stage.operator():
        made = await stage.container("backend-0", node=node, drives=1)
        await stage.all_served(["backend-0"])

    async def kubectl(*arguments: str) -> str:
        return await asyncio.to_thread(control_plane.kubectl, *arguments)

    shown = await kubectl(
        "-n", stage.namespace, "get", "wekacontainer", "backend-0", "-o", "jsonpath={.status.allocations}"
    )
    assert json.loads(shown) == {"drives": ["S1"], "wekaPort": 35000, "agentPort": 35300}
    now = await stage.get("backend-0")
    assert now["spec"] == made["spec"], "fields that we do not know pass unharmed"
    assert "finalizers" not in now["metadata"]
    assert await stage.storage_annotations(node) == before
    shown = await kubectl("get", "node", node, "-o", "jsonpath={.metadata.annotations}")
    assert "claims" not in shown
    await kubectl("-n", stage.namespace, "delete", "wekacontainer", "backend-0")
    assert await stage.storage_annotations(node) == before


async def test_read_only_writes_nothing_and_asks_nothing(stage: Stage) -> None:
    node = await stage.node("S1")
    await stage.container("a", node=node, drives=1)
    await stage.container("bad", node=node, drives=-1)
    async with stage.operator(read_only=True) as operator:
        await operator.look()
        await operator.look()
    assert [one for one in stage.record if one.call.writes] == []
    assert stage.calls()["get leases"] == 0
    assert await stage.allocations("a") == {}


async def test_shared_drives(stage: Stage) -> None:
    node = await stage.node("S1", shared={"S1": 1000, "S2": 1000})
    async with stage.operator():
        await stage.container("whole", node=node, drives=1)
        await stage.all_served(["whole"])
        await stage.container("parts", node=node, spec={"containerCapacity": 800, "numCores": 2})
        await stage.all_served(["parts"])
        await stage.container("more", node=node, spec={"driveCapacity": 400, "numDrives": 1})
        event = await stage.event("InsufficientDriveCapacity")
    drives = (await stage.allocations("parts"))["virtualDrives"]
    assert [(drive["serial"], drive["capacityGiB"]) for drive in drives] == [("S2", 400), ("S2", 400)]
    assert {drive["physicalUUID"] for drive in drives} == {"uuid-S2"}
    assert "2000 GiB are there on 2 drives, 0 blocked, 1800 taken, 200 free" in event["note"]


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_thousand_containers_on_fifty_nodes(stage: Stage) -> None:
    nodes = [await stage.node(*(f"S{n}" for n in range(20))) for _ in range(50)]
    names = []
    for number, node in enumerate(nodes):
        names += await stage.containers(20, node=node, prefix=f"n{number:02}-")
    async with stage.operator(clock=SuspendedClock()) as operator:
        await stage.all_served(names, seconds=300)
        await operator.idle()
    assert stage.calls().total() <= 2.5 * len(names), stage.calls()
