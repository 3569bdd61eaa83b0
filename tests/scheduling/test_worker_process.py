"""Questions answered by a process of their own: the same answers, and an error with a name when that process has none."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from plimsoll.scheduling.model import Template
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.worker import MEMORY_BYTES, Worker, WorkerFailed
from tests.scheduling import k1, menus
from tests.scheduling.cases import Case, node, offering, pod

NODES = tuple(node(f"n{number}", menus.CAPACITIES[3], zone=f"z{number % 3}") for number in range(6))
BOUND = tuple(pod(f"b{number}", menus.SIZES[1], node=f"n{number % 6}") for number in range(8))
CASE = Case(nodes=NODES, bound=BOUND, pending=k1.case(60, 1).pending, templates=(k1.template(40),))
WITHOUT_A_PRICE = Template("t", tuple(offering(name, menus.CAPACITIES[0], 1.0) for name in ("a", "b")))


pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker() -> AsyncIterator[Worker]:
    """One for all tests: a process takes a second to start, and those that end it have another in its place."""
    async with Worker() as worker:
        yield worker


async def test_answers_as_this_process_would(worker: Worker) -> None:
    snapshot = CASE.snapshot()
    names = [node.name for node in NODES]
    with snapshot.trial():  # with holes in it, too
        snapshot.remove("uid-b3")
        snapshot.remove_node("n5")
        here = pack(snapshot, CASE.pending, CASE.templates)
        there = await worker.pack(snapshot, CASE.pending, CASE.templates)
        assert there == here and list(there.placements) == list(here.placements)
        assert await worker.removable(snapshot, names) == removable(snapshot, names)


async def test_one_process_answers_many_questions_at_once(worker: Worker) -> None:
    snapshot = CASE.snapshot()
    answers = await asyncio.gather(*(worker.pack(snapshot, [waiting]) for waiting in CASE.pending[:5]))
    assert answers == [pack(snapshot, [waiting]) for waiting in CASE.pending[:5]]


async def test_a_process_that_was_killed_is_replaced(worker: Worker) -> None:
    snapshot = CASE.snapshot()
    expected = await worker.pack(snapshot, CASE.pending)
    killed = worker.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert await worker.pack(snapshot, CASE.pending) == expected
    assert worker.pid not in (None, killed)


async def test_a_process_that_dies_over_a_question_is_an_error_and_is_replaced(worker: Worker) -> None:
    snapshot = CASE.snapshot()
    await worker.pack(snapshot, ())
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)  # so that it cannot answer before it is killed
    asked = asyncio.create_task(worker.pack(snapshot, CASE.pending))
    await asyncio.sleep(0)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="died"):
        await asked
    assert await worker.pack(snapshot, CASE.pending) == pack(snapshot, CASE.pending)


async def test_a_question_that_takes_too_long_is_given_up() -> None:
    async with Worker(timeout_seconds=0.001) as worker:
        with pytest.raises(WorkerFailed, match=r"no plan after 0.001 s"):
            await worker.pack(CASE.snapshot(), CASE.pending)
        assert worker.pid is None
        worker.timeout_seconds = 300.0
        assert (await worker.pack(CASE.snapshot(), CASE.pending)).placements


async def test_a_question_that_takes_too_much_memory_fails_and_the_next_is_answered() -> None:
    large = k1.case(1000, 1)
    async with Worker(memory_bytes=2**20) as worker:
        with pytest.raises(WorkerFailed, match=r"MemoryError|died"):
            await worker.pack(large.snapshot(), large.pending, large.templates)
        await worker.close()
        worker.memory_bytes = MEMORY_BYTES
        assert (await worker.pack(CASE.snapshot(), CASE.pending)).placements


async def test_what_the_computation_raises_is_told_and_the_process_stays(worker: Worker) -> None:
    await worker.pack(CASE.snapshot(), ())
    pid = worker.pid
    broken = msgspec.structs.replace(
        WITHOUT_A_PRICE,
        offerings=tuple(msgspec.structs.replace(o, price=None) for o in WITHOUT_A_PRICE.offerings),
    )
    with pytest.raises(WorkerFailed, match="TypeError"):
        await worker.pack(CASE.snapshot(), CASE.pending, [broken])
    assert worker.pid == pid
    assert (await worker.pack(CASE.snapshot(), CASE.pending)).placements


async def test_a_question_that_nobody_waits_for_leaves_no_process_behind(worker: Worker) -> None:
    await worker.pack(CASE.snapshot(), ())
    stopped = worker.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    asked = asyncio.create_task(worker.pack(CASE.snapshot(), CASE.pending))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert worker.pid is None
    assert (await worker.pack(CASE.snapshot(), CASE.pending)).placements
