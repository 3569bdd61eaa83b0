"""Crashes and lost replies at every sort of write, in every phase of a node: faults 1, 2 and 3 on the real control plane."""

from __future__ import annotations

import pytest

from tests.faults import answers
from tests.faults.calls import Call
from tests.faults.faults import CrashAfter, CrashBefore, Fault, Misreport, ResetAfter
from tests.nodegroups.ordeal import QUICK, Ordeal

# What the operator does to its own objects and to nodes; the provider's own writes are among those on nodes.
SORTS = ("nodegroups/status", "vpsienodes", "vpsienodes/status", "nodes", "pods/eviction")
PHASES = ("Provisioning", "Provisioned", "Ready", "Terminating", "Deleting")


class First:
    """The first write of each sort, and the first that brings a node into each phase; each once."""

    def __init__(self) -> None:
        self.struck: set[str] = set()

    def __call__(self, call: Call) -> bool:
        if not call.works or call.sort.split()[-1] not in SORTS:
            return False
        body = call.json if isinstance(call.json, dict) else {}
        phase = (body.get("status") or {}).get("phase", "") if call.subresource == "status" else ""
        what = f"{call.sort} {phase}".strip()
        if what in self.struck:
            return False
        self.struck.add(what)
        return True


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(answers.timed_out)], ids=["reset", "504"])
async def test_the_first_reply_to_each_sort_of_write_is_lost(ordeal: Ordeal, fault: Fault) -> None:
    stage, first = ordeal.stage, First()
    ordeal.rules.add(first, fault)
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with ordeal.life():
        await stage.settled(2, pods=4)
        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
    _struck_everywhere(first)
    await ordeal.was_safe(least=1, most=4)


@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
async def test_another_takes_over_in_every_phase(ordeal: Ordeal, fault: Fault) -> None:
    stage, first = ordeal.stage, First()
    ordeal.rules.add(first, fault)
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    crashes = await ordeal.lives(lambda: stage.settled(2, pods=4))
    await stage.scale("web", 1)
    crashes += await ordeal.lives(lambda: stage.settled(1, pods=1))
    _struck_everywhere(first)
    assert crashes == len(first.struck), "each of them ended a life"
    await ordeal.was_safe(least=1, most=4)


def _struck_everywhere(first: First) -> None:
    wanted = {f"patch vpsienodes/status {phase}" for phase in PHASES}
    wanted |= {"create vpsienodes", "create nodes", "patch nodes", "delete nodes", "delete vpsienodes"}
    assert wanted <= first.struck, wanted - first.struck
