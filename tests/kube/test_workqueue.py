"""Keys wait once, are handled by one worker at a time, and come back when they should."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.embedded_cluster.clocks import ScaledClock, VirtualClock
from plimsoll.kube.workqueue import URGENT_IN_A_ROW, Queue, ShutDown
from tests.eventually import PATIENCE_SECONDS


async def drain(queue: Queue[str]) -> list[str]:
    taken = []
    while len(queue):
        key = await queue.take()
        taken.append(key)
        queue.done(key)
    return taken


async def test_a_key_added_often_is_handled_once():
    queue: Queue[str] = Queue(VirtualClock())
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert await drain(queue) == ["a", "b"]
    queue.add("c")
    assert await drain(queue) == ["c"]  # nothing was left of the repeats


async def test_a_key_added_while_it_is_handled_follows_afterwards_and_not_at_the_same_time():
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("a")
    key = await queue.take()
    queue.add("a")
    assert len(queue) == 0
    assert queue.handling == 1
    queue.done(key)
    assert await queue.take() == "a"


async def test_urgent_keys_go_first_but_others_get_their_turn():
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("ordinary")
    for number in range(URGENT_IN_A_ROW + 2):
        queue.add(f"urgent-{number}", urgent=True)
    order = await drain(queue)
    assert order[0] == "urgent-0"
    assert order.index("ordinary") == URGENT_IN_A_ROW


async def test_a_waiting_key_can_become_urgent():
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("a")
    queue.add("b")
    queue.add("b", urgent=True)
    assert await drain(queue) == ["b", "a"]


async def test_what_is_urgent_while_it_is_handled_is_urgent_afterwards():
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("b")
    queue.add("a", urgent=True)
    queue.add("a")
    queue.done("a")
    assert [await queue.take(), await queue.take()] == ["a", "b"]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_the_earliest_wish_counts():
    queue: Queue[str] = Queue(VirtualClock())
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after("a", 100)
    queue.add_after("a", 5)
    queue.add_after("a", 50)
    assert await queue.take() == "a"
    assert loop.time() - began == pytest.approx(5, abs=0.1)
    queue.done("a")
    # The look at it has settled the other wishes too.
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(200):
            await queue.take()


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_each_failure_waits_longer_and_success_forgives():
    queue: Queue[str] = Queue(VirtualClock(), retry_base_seconds=1, retry_cap_seconds=60, rng=Random(1))
    delays = []
    for _ in range(10):
        delays.append(queue.retry("a"))
        assert await queue.take() == "a"
        queue.done("a")
    assert delays[0] <= 1
    assert all(later > earlier for earlier, later in zip(delays[:4], delays[2:6], strict=True))
    assert max(delays) <= 60
    assert queue.retry("a", at_most_seconds=5) <= 5
    queue.forget("a")
    assert queue.retry("a") <= 1


async def test_back_off_is_each_keys_own():
    queue: Queue[str] = Queue(VirtualClock(), retry_base_seconds=1, rng=Random(1))
    for _ in range(6):
        queue.retry("bad")
    assert queue.retry("good") <= 1


async def test_shut_down_ends_those_who_wait_and_lets_those_who_work_finish():
    queue: Queue[str] = Queue(VirtualClock())
    queue.add("in hand")
    key = await queue.take()
    queue.add("never started")
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    await waiting  # it got the key that waited
    blocked = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.shut_down()
    with pytest.raises(ShutDown):
        await blocked
    queue.done(key)
    queue.add("late")
    assert len(queue) == 0


async def test_a_cancelled_taker_passes_its_wake_up_on():
    queue: Queue[str] = Queue(VirtualClock())
    first, second = (asyncio.create_task(queue.take()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    assert await asyncio.wait_for(second, PATIENCE_SECONDS) == "a"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "urgent", "after", "retry"])), max_size=30))
def test_no_key_is_lost_or_handled_twice_at_once(steps: list[tuple[str, str]]):
    async def play() -> None:
        queue: Queue[str] = Queue(VirtualClock(), retry_base_seconds=0.001, retry_cap_seconds=0.002)
        active: set[str] = set()
        seen_after: dict[str, int] = {}
        last_add = {key: number for number, (key, _) in enumerate(steps)}
        moment = 0

        async def worker() -> None:
            while True:
                try:
                    key = await queue.take()
                except ShutDown:
                    return
                assert key not in active
                active.add(key)
                seen_after[key] = moment
                await asyncio.sleep(0)
                active.discard(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        for moment, (key, how) in enumerate(steps):  # noqa: B007 - the workers read it
            match how:
                case "add":
                    queue.add(key)
                case "urgent":
                    queue.add(key, urgent=True)
                case "after":
                    queue.add_after(key, 0.001)
                case "retry":
                    queue.retry(key)
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not queue.idle or queue._timers:
                await asyncio.sleep(0.001)
        queue.shut_down()
        await asyncio.gather(*workers)
        # Each key was handled at or after its last add.
        assert all(seen_after[key] >= number for key, number in last_add.items())

    asyncio.run(play())


async def test_delays_run_on_the_injected_clock():
    """An hour on a clock at 36,000 times the speed is a tenth of a second; in real seconds the key would never come."""
    queue: Queue[str] = Queue(ScaledClock(36_000))
    queue.add_after("a", 3600)
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"


async def test_a_paused_clock_delays_keys_until_it_runs_again():
    clock = ScaledClock(36_000)
    queue: Queue[str] = Queue(clock)
    queue.add_after("a", 3600)
    clock.speed = 0
    taken = asyncio.create_task(queue.take())
    await asyncio.sleep(0.3)
    assert not taken.done()
    clock.speed = 36_000
    assert await asyncio.wait_for(taken, PATIENCE_SECONDS) == "a"


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_outdated_timers_do_not_pile_up():
    queue: Queue[str] = Queue(VirtualClock())
    for _ in range(5000):
        queue.add_after("a", 3600)
        queue.add("a")
        queue.done(await queue.take())
    assert len(queue._timers) <= 2000
    queue.add_after("a", 10)
    assert await queue.take() == "a"
    assert VirtualClock().monotonic() == pytest.approx(10)
