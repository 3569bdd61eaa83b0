"""Two who believe that they lead: one that was stopped in the middle of a drain, and an old version beside a new one."""

from __future__ import annotations

from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.runtime.exit_codes import ExitCode
from tests.eventually import eventually
from tests.faults.faults import Hold
from tests.faults.processes import OperatorProcess
from tests.faults.rules import on
from tests.nodegroups.live import SHORT_LEASE, config
from tests.nodegroups.ordeal import DRAIN_TAINT, QUICK, Ordeal


async def test_the_leader_is_stopped_in_the_middle_of_a_drain_and_wakes_up_too_late(ordeal: Ordeal) -> None:
    """Fault 13, S6 and S9: another ends the drain and makes a new node meanwhile. The last word of the first is void."""
    stage, late = ordeal.stage, Hold()
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    process = OperatorProcess.start(ordeal.proxy, "first", stage.namespace, module="tests.nodegroups.run_groups")
    async with await process as first:
        await stage.settled(1)
        (node,) = await stage.nodes()
        by_first = on("delete", "nodes", link="first")
        held = ordeal.rules.add(by_first, late)
        await stage.change(desiredNodes=0)
        await eventually(lambda: first.check_alive() and held.struck, "the machine is about to go", seconds=180)
        first.pause()
        settings = config(stage.namespace, election=SHORT_LEASE)
        async with ordeal.life("second", settings) as second:
            await eventually(lambda: second.operator.leading, "another leads", seconds=180)
            await eventually(lambda: _gone(ordeal, node.name), "it ends what the first began", seconds=180)
            await stage.change(desiredNodes=1)
            await stage.settled(1)
            mark = len(ordeal.record)
            first.resume()
            assert await first.exit_code() == ExitCode.LEADERSHIP_LOST
            late.released.set()
            await ordeal.record.until(lambda record: all(one.sent for one in record.of(by_first)), seconds=180)
            assert not [one for one in ordeal.record.works(since=mark) if one.call.link == "first" and one.applied]
            await stage.settled(1)
    await ordeal.was_safe(most=1)


async def _gone(ordeal: Ordeal, name: str) -> bool:
    return name not in {node.name for node in await ordeal.stage.nodes()}


async def test_an_old_and_a_new_version_side_by_side(ordeal: Ordeal) -> None:
    """Fault 23: both act, on their own views, at the same time; no machine is bought twice and no node goes with a pod on it."""
    stage = ordeal.stage
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 6)
    async with ordeal.life("old"), ordeal.life("new"):
        await stage.settled(3, pods=6)
        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
        acted = {one.call.link for one in ordeal.record.works() if one.applied}
        assert acted == {"old", "new"}
    assert not [pod for pod in (await stage.client.list(PODS, stage.namespace)).items if not pod.spec.node_name]
    nodes = (await stage.client.list(NODES, label_selector="plimsoll.dev/provider=kwok")).items
    own = [node for node in nodes if any(taint.value == stage.namespace for taint in node.spec.taints)]
    assert len(own) == 1, "no machine is left over"
    assert not any(taint.key == DRAIN_TAINT for taint in own[0].spec.taints)
    # Each counts what it sees: together they may go beyond the maximum for a moment, and mend it. S6, S8 and S10 hold.
    await ordeal.was_safe(most=99)
