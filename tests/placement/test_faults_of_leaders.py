"""Fault 13, two operators at once, and faults of every sort drawn from a seed, all in the middle of a rebalance."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest

from plimsoll.runtime.exit_codes import ExitCode
from tests.eventually import eventually
from tests.faults.faults import Hold
from tests.faults.invariants import evictions
from tests.faults.processes import OperatorProcess
from tests.faults.rules import on
from tests.faults.seeds import FaultPlan
from tests.placement.faulty import PATIENCE_SECONDS, SHORT_LEASE, NewStory

SIDE_BY_SIDE = 4


async def test_the_leader_is_stopped_in_the_middle_of_a_move_and_wakes_up_too_late(new_story: NewStory):
    """S4, S9, S13: its eviction arrives when another has long led, and names a pod that is gone."""
    async with new_story() as story:
        late = Hold()
        held = story.rules.add(on("create", "pods/eviction", link="first"), late)
        place = f"{story.installation}/{story.home}/{story.namespace}"
        process = OperatorProcess.start(story.proxy, "first", place, module="tests.placement.run_faulty")
        async with await process as first:
            await story.begin()
            await eventually(lambda: first.check_alive() and held.struck, "a move under way", seconds=120)
            first.pause()
            second = await story.life("second", story.settings(election=SHORT_LEASE))
            await eventually(lambda: second.operator.leading, "another leads", seconds=120)
            await story.settles(second)
            mark = len(story.record)
            first.resume()
            assert await first.exit_code() == ExitCode.LEADERSHIP_LOST
        late.released.set()
        await story.record.until(lambda record: all(one.sent for one in evictions(record)), seconds=120)
        await story.settles(second)
        await second.stop()
        (arrived,) = [one for one in evictions(story.record) if one.call.link == "first"]
        assert arrived.answered in (404, 409)
        assert story.record.works(since=mark) == []
        await story.was_safe()


@pytest.mark.soak
async def test_a_few_campaigns(new_story: NewStory):
    await _campaigns(new_story, range(1, 4))


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_many_campaigns(new_story: NewStory):
    chosen = os.environ.get("PLIMSOLL_FAULT_SEEDS", "")
    await _campaigns(new_story, [int(seed) for seed in chosen.split(",") if seed] or range(100, 160))


async def _campaigns(new_story: NewStory, seeds: Iterable[int]) -> None:
    places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def run(seed: int) -> None:
        async with places:
            try:
                await _campaign(new_story, seed)
            except BaseException as error:
                error.add_note(str(FaultPlan.from_seed(seed)))
                raise

    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(run(seed), name=f"seed {seed}")


async def _campaign(new_story: NewStory, seed: int) -> None:
    """Every third seed has two operators and an election."""
    names, election = (("a", "b"), SHORT_LEASE) if seed % 3 == 0 else (("a",), None)
    async with new_story(FaultPlan.from_seed(seed)) as story, AsyncExitStack() as stack:
        settings = story.settings(election=election)
        for name in names:
            await stack.enter_async_context(story.lives(name, settings))
        await story.begin()
        await story.web.settled(3, 3, seconds=PATIENCE_SECONDS)
        await story.was_safe()
