"""Faults 2, 3 and 4 of the fault list: crashes after a write, lost replies, conflicts. Each pod is written to once."""

from __future__ import annotations

import asyncio

import pytest

from plimsoll.controllers.deletion_cost.values import COST
from tests.deletion_cost.live import Live, is_ready, writes
from tests.deletion_cost.scene import TOP
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, CrashAfter, CrashBefore, Fault, Hold, Misreport, ResetAfter
from tests.faults.upstream import RefusedError

PODS = 6


async def balanced(live: Live) -> None:
    """What every one of these comes to: the values of a quiet run, each written once, by UID and version."""
    assert sorted((await live.costs()).values()) == [TOP - 1] * 3 + [TOP] * 3
    written = live.written()
    assert len(written) == len(set(written)) == PODS
    invariants.changes_insist_on_what_was_seen(live.record)


@pytest.mark.parametrize("fault", [CrashAfter(), CrashBefore()], ids=["after", "before"])
@pytest.mark.parametrize("nth", [1, 3, PODS])
async def test_a_crash_around_a_write(live: Live, nth: int, fault: Fault) -> None:
    await live.deploy(PODS)
    rule = live.rules.add(writes, fault, skip=nth - 1, times=1)
    await (await live.start()).exit_code()
    assert rule.struck == 1
    await live.comes_to_rest(await live.start())
    await balanced(live)


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(answers.timed_out)], ids=["reset", "504"])
async def test_every_reply_is_lost(live: Live, fault: Fault) -> None:
    await live.deploy(PODS)
    rule = live.rules.add(writes, fault, times=PODS)
    await live.comes_to_rest(await live.start())
    assert rule.struck == PODS
    await balanced(live)


async def test_conflicts_in_a_row(live: Live) -> None:
    await live.deploy(PODS)
    rule = live.rules.add(writes, Answer(answers.conflict), times=3 * PODS)
    await live.comes_to_rest(await live.start())
    assert rule.struck == 3 * PODS
    await balanced(live)


async def test_a_value_that_someone_writes_meanwhile_is_not_overwritten(live: Live) -> None:
    """The view has not shown it yet when we decide: the version that we insist on is no longer the pod's."""
    await live.deploy(PODS)
    hold = Hold()
    live.rules.add(writes, hold, times=PODS)
    life = await live.start()
    await live.record.until(lambda record: len(record.of(writes)) == PODS)
    theirs = (await live.pods())[0]["metadata"]["name"]
    await live.direct.patch(live.pod_path(theirs), {"metadata": {"annotations": {COST: "42"}}})
    hold.released.set()

    async def all_have_one() -> bool:
        return len(await live.costs()) == PODS

    await eventually(all_have_one, "every pod has a value")
    await life.rounds(1)
    assert (await live.costs())[theirs] == 42


async def test_a_pod_that_vanished_is_no_error(live: Live) -> None:
    await live.deploy(PODS)
    hold = Hold()
    live.rules.add(writes, hold, times=PODS)
    life = await live.start()
    await live.record.until(lambda record: len(record.of(writes)) == PODS)
    for pod in (await live.pods())[:2]:
        await live.delete(pod)
    hold.released.set()
    await live.all_ready(PODS)
    await live.comes_to_rest(life)
    assert life.metric("plimsoll_actions_total", result="gone") == 2
    assert life.metric("plimsoll_actions_total", result="failed") == 0
    assert life.metric("plimsoll_reconcile_errors_total") == 0


async def test_someone_who_writes_to_the_pods_all_the_time(live: Live) -> None:
    """Status and other annotations change under our hands: the writes get through all the same."""
    await live.deploy(PODS)
    stop = asyncio.Event()

    async def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            for pod in await live.pods():
                body = {"metadata": {"annotations": {"plimsoll.test/turn": str(turn)}}}
                try:
                    await live.direct.patch(live.pod_path(pod["metadata"]["name"]), body)
                except RefusedError as error:
                    assert error.status == 404  # noqa: PT017 - it left
            await asyncio.sleep(0.02)

    others = asyncio.create_task(disturb())
    life = await live.start()
    await eventually(live.all_covered, "every pod has a value in spite of them")
    stop.set()
    await others
    await live.comes_to_rest(life)
    await balanced(live)


async def test_after_a_failover_nothing_is_written(live: Live) -> None:
    await live.deploy(PODS)
    first = await live.start()
    await live.comes_to_rest(first)
    await first.stop()
    mark = len(live.record)
    second = await live.start()
    await live.comes_to_rest(second)
    for _ in range(3):
        await second.rounds(1)
    assert live.record.works(since=mark) == []
    assert all(is_ready(pod) for pod in await live.pods())
