"""Containers come, wait, grow and go; nodes go; and what was freed is given to those who wait for it."""

from __future__ import annotations

from plimsoll.controllers.allocation.inventory import BLOCKED
from tests.allocation.environment import FIRST_SWEEP, Stage
from tests.eventually import eventually
from tests.faults.upstream import Json


async def test_what_is_freed_goes_to_the_one_who_waits_for_it(stage: Stage) -> None:
    """Not while its holder is merely leaving, and without a finalizer or a write to the node."""
    node = await stage.node("S1")
    await stage.container("first", node=node, drives=1, finalizers=["example.org/of-someone-else"])
    async with stage.operator() as operator:
        await stage.all_served(["first"])
        await stage.container("second", node=node, drives=1)
        event = await stage.event("InsufficientDrives")
        assert "asked for 1 drives" in event["note"]
        assert f"taken by {stage.namespace}/first (1)" in event["note"]
        await stage.delete("first")
        await operator.look()
        assert await stage.allocations("second") == {}, "it is merely terminating"
        mark = len(stage.record)
        await stage.direct.patch(f"{stage.path}/first", {"metadata": {"finalizers": None}})
        await stage.all_served(["second"])
        assert stage.calls(since=mark)["patch wekacontainers/status"] == 2
    assert (await stage.allocations("second"))["drives"] == ["S1"]


async def test_a_shortage_is_no_hot_loop(stage: Stage) -> None:
    node = await stage.node("S1")
    await stage.container("big", node=node, drives=5)
    async with stage.operator() as operator:
        await stage.event("InsufficientDrives")

        async def said() -> bool:
            return (await stage.condition("big")).get("reason") == "InsufficientDrives"

        await eventually(said, "the container says why it waits")
        await operator.idle()
        mark = len(stage.record)
        for _ in range(3):
            await operator.look()
        assert (stage.calls(since=mark) - FIRST_SWEEP).total() == 0, "it waits until something is freed"
        await stage.container("small", node=node, drives=1)
        await stage.all_served(["small"])
    assert len(await stage.events("InsufficientDrives")) == 1


async def test_recreated_under_the_same_name_it_is_another(stage: Stage) -> None:
    node = await stage.node("S1", "S2")
    async with stage.operator():
        first = await stage.container("a", node=node, drives=1)
        await stage.all_served(["a"])
        await stage.container("b", node=node, drives=1)
        await stage.all_served(["b"])
        await stage.delete("a")
        second = await stage.container("a", node=node, drives=1)
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        await stage.all_served(["a"])
    assert (await stage.allocations("a"))["drives"] == ["S1"]


async def test_growth_only_adds(stage: Stage) -> None:
    node = await stage.node("S1", "S2", "S3")
    async with stage.operator():
        await stage.container("a", node=node, drives=1)
        await stage.all_served(["a"])
        await stage.container("b", node=node, drives=1)
        await stage.all_served(["b"])
        await stage.direct.patch(f"{stage.path}/a", {"spec": {"numDrives": 2}})
        await stage.all_served(["a"])
    assert await stage.allocations("a") == {"drives": ["S1", "S3"], "wekaPort": 35000, "agentPort": 35300}


async def test_what_others_allocated_counts(stage: Stage) -> None:
    """Without our marker, and also in another namespace: drives and ports belong to the node."""
    node = await stage.node("S1", "S2")
    await stage.container(
        "theirs", node=node, drives=1,
        status={"status": "Running", "allocations": {"drives": ["S1"], "wekaPort": 35000, "agentPort": 35300}},
    )  # fmt: skip
    async with stage.operator():
        await stage.container("ours", node=node, drives=1)
        await stage.all_served(["ours"])
    assert await stage.allocations("ours") == {"drives": ["S2"], "wekaPort": 35100, "agentPort": 35301}


async def test_a_drive_that_is_blocked_later_is_reported_and_kept(stage: Stage) -> None:
    node = await stage.node("S1", "S2")
    async with stage.operator():
        await stage.container("a", node=node, drives=1)
        await stage.all_served(["a"])
        await stage.annotate_node(node, {BLOCKED: '["S1"]'})
        event = await stage.event("AllocatedDriveBlocked")
    assert "S1" in event["note"]
    assert (await stage.allocations("a"))["drives"] == ["S1"]


async def test_the_lease_of_a_node_that_is_gone_is_removed(stage: Stage) -> None:
    gone, stays = await stage.node("S1"), await stage.node("S1")
    async with stage.operator():
        await stage.container("a", node=gone, drives=1)
        await stage.container("b", node=stays, drives=1)
        await stage.all_served(["a", "b"])
        await stage.remove_node(gone)

        async def removed() -> bool:
            return await stage.lease(gone) is None

        await eventually(removed, "its lease is removed")
        assert await stage.lease(stays) is not None
    deleted = stage.record.of(lambda call: call.verb == "delete" and call.resource == "leases")
    assert [bool(one.call.required_uid) for one in deleted] == [True]


async def test_a_lease_left_behind_before_the_start_is_removed_too(stage: Stage) -> None:
    await stage.node("S1")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.namespace}/leases"
    for name in ("weka-allocator-long-gone", "of-someone-else"):
        body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        await stage.direct.create(path, body)

    async def names() -> set[str]:
        return {item["metadata"]["name"] for item in (await stage.direct.get(path))["items"]}

    async def removed() -> bool:
        return await names() == {"of-someone-else"}

    async with stage.operator():
        await eventually(removed, "the orphan is removed, and nothing else")
