"""Faults 1, 2 and 3: at every write of an allocation in turn, the operator crashes before or after it, or its reply is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.allocation.conftest import NewStage
from tests.allocation.environment import SHORT_LEASE, Stage
from tests.faults import answers
from tests.faults.calls import Call
from tests.faults.faults import CrashAfter, CrashBefore, Fault, Misreport, ResetAfter

# Two containers: the lease is taken, two proposals, two commits, the lease is given back.
WRITES = 6


def writes(call: Call) -> bool:
    return call.writes and call.resource in ("leases", "wekacontainers")


async def _tell_the_story(stage: Stage) -> int:
    """Two containers are served, by as many operators as it takes. Returns how many that were."""
    node = await stage.node("S1", "S2", "S3")
    names = await stage.containers(2, node=node)
    lives = 0
    served = asyncio.create_task(stage.all_served(names))
    while not served.done():
        lives += 1
        async with stage.operator(f"a{lives}") as operator:
            crashed = asyncio.create_task(operator.link.crashed.wait())
            await asyncio.wait([served, crashed], return_when=asyncio.FIRST_COMPLETED)
            # Both are served before the last write, at which the operator may still crash.
            resting = asyncio.create_task(operator.look())
            await asyncio.wait([resting, crashed], return_when=asyncio.FIRST_COMPLETED)
            for task in (resting, crashed):
                task.cancel()
            if resting.done() and not resting.cancelled():
                await resting
    await served
    return lives


async def _strike(new_stage: NewStage, fault: Fault, nth: int, lives: int) -> None:
    async with new_stage() as stage:
        stage.times = SHORT_LEASE  # the successor waits until it has run out
        stage.alone = True
        rule = stage.rules.add(writes, fault, skip=nth - 1, times=1)
        assert await _tell_the_story(stage) <= lives
        assert rule.struck == 1
        allocated = [(await stage.allocations(name))["drives"] for name in ("c000", "c001")]
        assert sorted(allocated) == [["S1"], ["S2"]], "what a dead operator only proposed is given out again"


async def test_an_undisturbed_story_takes_so_many_writes(stage: Stage) -> None:
    assert await _tell_the_story(stage) == 1
    assert len(stage.record.of(writes)) == WRITES


@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
async def test_a_crash_at_every_write(new_stage: NewStage, fault: Fault) -> None:
    async with asyncio.TaskGroup() as group:
        for nth in range(1, WRITES + 1):
            group.create_task(_strike(new_stage, fault, nth, 2), name=f"crash at write {nth}")


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(answers.timed_out)], ids=["reset", "timeout"])
async def test_a_lost_reply_at_every_write(new_stage: NewStage, fault: Fault) -> None:
    async with asyncio.TaskGroup() as group:
        for nth in range(1, WRITES + 1):
            group.create_task(_strike(new_stage, fault, nth, 1), name=f"reply of write {nth} is lost")
