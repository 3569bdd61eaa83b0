"""Faults 1 to 5 and 9 of a rebalance: crashes around every write, lost replies, conflicts, refusals, a server that lags behind.

Whatever happens, the minimum stays ready and one replica at most is missing; afterwards all is where it should be.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, CrashAfter, CrashBefore, Fault, Misreport, ResetAfter, StaleList
from tests.faults.rules import on, works
from tests.placement.faulty import PATIENCE_SECONDS, NewStory

EVICT = on("create", "pods/eviction")


async def crash_at(new_story: NewStory, fault: Fault, nth: int) -> None:
    async with new_story() as story:
        rule = story.rules.add(works, fault, skip=nth - 1, times=1)
        async with story.lives() as operator:
            await story.begin()
            await eventually(lambda: len(operator.lives) == 2, f"a crash at write {nth}", seconds=PATIENCE_SECONDS)
            await story.settles(operator.lives[1])
            assert (rule.struck, len(operator.lives)) == (1, 2)
        await story.was_safe()


@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
@pytest.mark.parametrize("nth", [3, 4], ids=["written-down", "evicted"])
async def test_a_crash_around_a_write(new_story: NewStory, fault: Fault, nth: int):
    """Faults 1 and 2, in the second of three moves: around what is written down, and around the eviction."""
    await crash_at(new_story, fault, nth)


@pytest.mark.soak
@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
async def test_a_crash_around_each_write(new_story: NewStory, fault: Fault):
    async with asyncio.TaskGroup() as group:
        for nth in (1, 2, 5, 6):
            group.create_task(crash_at(new_story, fault, nth), name=f"crash at write {nth}")


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(answers.timed_out)], ids=["reset", "504"])
async def test_the_reply_to_every_other_write_is_lost(new_story: NewStory, fault: Fault):
    """Fault 3: a move whose reply nobody heard is made once, and counted."""
    writes = itertools.count()
    async with new_story() as story:
        lost = story.rules.add(lambda call: works(call) and next(writes) % 2 == 0, fault)
        life = await story.life()
        await story.begin()
        await story.settles(life)
        await life.stop()
        assert lost.struck >= 3
        await story.was_safe()


async def test_conflicts_in_a_row(new_story: NewStory):
    """Fault 4: the memory of disruptions is someone else's for a while; nobody leaves before it is written."""
    async with new_story() as story:
        conflicts = story.rules.add(on("patch create", "configmaps"), Answer(answers.conflict), times=5)
        life = await story.life()
        await story.begin()
        await story.settles(life)
        await life.stop()
        assert conflicts.struck == 5
        await story.was_safe()


@pytest.mark.parametrize("refusal", [answers.budget_exhausted, answers.two_budgets], ids=["429", "500"])
async def test_evictions_are_refused(new_story: NewStory, refusal: Callable[..., answers.Reply]):
    """Fault 5: nothing is forced; once evictions are possible again, it goes on."""
    async with new_story() as story:
        before = {pod.uid for pod in await story.web.pods()}
        refused = story.rules.add(EVICT, Answer(refusal))
        life = await story.life()
        await story.begin()
        await eventually(lambda: refused.struck >= 2, "two tries", seconds=120)
        assert {pod.uid for pod in await story.web.pods()} == before
        assert story.record.of(on("delete deletecollection", "pods")) == [], "L6: never forced"
        story.rules.drop(refused)
        await story.settles(life)
        await life.stop()
        await story.was_safe()


async def test_a_restart_onto_a_server_that_lags_behind(new_story: NewStory):
    """Fault 9: in the past that a cache still shows, all replicas are on-demand; they were moved since."""
    async with new_story() as story:
        pods = f"/api/v1/namespaces/{story.namespace}/pods"
        past = (await story.direct.get(pods))["metadata"]["resourceVersion"]
        first = await story.life("a")
        await story.begin()
        await story.settles(first)
        first.link.crash()
        await first.exit_code()
        story.rules.add(on("list get watch"), StaleList(past))
        mark = len(story.record)
        second = await story.life("b")
        await eventually(lambda: second.operator.not_ready() is None, "a live view")
        await story.settles(second)
        await second.stop()
        assert invariants.evictions(story.record, since=mark) == []
        assert [one for one in story.record if one.call.params.get("resourceVersion") == "0"] == []
        await story.was_safe()
