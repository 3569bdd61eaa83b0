"""On the real control plane: containers get drives and ports, and what that costs."""

from __future__ import annotations

from tests.allocation.stage import Stage


async def test_a_single_container_costs_seven_calls(stage: Stage) -> None:
    node = await stage.node("S1", "S2", "S3")
    async with stage.operator() as operator:
        await operator.look()
        mark = len(stage.record)
        await stage.container("backend-0", node=node, drives=2)
        await stage.all_served(["backend-0"])
        await operator.idle()
    assert await stage.allocations("backend-0") == {"drives": ["S1", "S2"], "wekaPort": 35000, "agentPort": 35300}
    calls = stage.calls(since=mark)
    assert calls.total() <= 7, calls
    assert calls["patch wekacontainers/status"] == 2, calls


async def test_a_hundred_containers_on_one_node_cost_two_and_a_half_calls_each(stage: Stage) -> None:
    node = await stage.node(*(f"S{n}" for n in range(100)))
    names = await stage.containers(100, node=node)
    mark = len(stage.record)
    async with stage.operator() as operator:
        await stage.all_served(names)
        await operator.idle()
    calls = stage.calls(since=mark)
    assert calls.total() <= 250, calls
