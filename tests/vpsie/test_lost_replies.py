"""An order whose answer is lost, or says nothing: one machine all the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from plimsoll.providers.errors import AmbiguousOutcome, ProviderUnreachable
from tests.vpsie.conftest import Desk
from tests.vpsie.emulator import Fault


@pytest.mark.parametrize("fault", ["lose reply", "huge", "garbage"])
async def test_a_machine_that_was_made_is_found_again(desk: Desk, fault: Fault) -> None:
    desk.emulator.fail("POST /vm", fault)
    machine = await desk.create()
    assert machine.id == str(desk.emulator.machines[0].id)
    assert desk.emulator.count("POST /vm") == 1
    assert (await desk.create()).id == machine.id
    assert desk.emulator.keys == {"k1": 1}


async def test_an_answer_that_comes_too_late_is_not_waited_for(desk: Desk) -> None:
    desk.emulator.fail("POST /vm", "hang")
    asking = asyncio.create_task(desk.create())
    await desk.emulator.hanging.wait()
    assert not asking.done()
    desk.clock.push(30)
    assert (await asking).id == str(desk.emulator.machines[0].id)
    assert desk.emulator.keys == {"k1": 1}


@pytest.mark.parametrize("fault", ["lose request", (502, None), (500, {"error": True, "message": "oops"}), "html"])
async def test_an_order_that_may_never_have_arrived_is_sent_anew_only_when_a_machine_would_be_listed(
    desk: Desk, fault: Any
) -> None:
    desk.emulator.fail("POST /vm", fault)
    with pytest.raises(AmbiguousOutcome, match="POST /vm"):
        await desk.create()
    with pytest.raises(AmbiguousOutcome, match="was ordered before without a reply"):
        await desk.create()
    assert desk.emulator.count("POST /vm") == 1
    desk.clock.push(120)
    await desk.create()
    assert desk.emulator.count("POST /vm") == 2
    assert desk.emulator.keys == {"k1": 1}


async def test_a_list_that_lags_hides_no_machine_from_whoever_asks_again(desk: Desk) -> None:
    desk.emulator.lag_seconds = 100
    desk.emulator.fail("POST /vm", "lose reply")
    for _ in range(20):
        try:
            machine = await desk.create()
        except AmbiguousOutcome:
            desk.clock.push(5)
        else:
            break
    assert machine.id == str(desk.emulator.machines[0].id)
    assert desk.emulator.keys == {"k1": 1}


async def test_another_process_that_knows_of_the_order_waits_as_well(desk: Desk) -> None:
    desk.emulator.lag_seconds = 100
    desk.emulator.fail("POST /vm", "lose reply")
    asked_at = desk.clock.now()
    with pytest.raises(AmbiguousOutcome):
        await desk.create()
    desk.start()
    with pytest.raises(AmbiguousOutcome):
        await desk.create(last_asked_at=asked_at)
    desk.clock.push(100)
    machine = await desk.create(last_asked_at=asked_at)
    assert machine.id == str(desk.emulator.machines[0].id)
    assert desk.emulator.keys == {"k1": 1}


async def test_an_order_without_an_answer_from_long_ago_is_sent_anew(desk: Desk) -> None:
    await desk.create(last_asked_at=desk.clock.now() - timedelta(seconds=121))
    assert desk.emulator.keys == {"k1": 1}


async def test_a_clock_that_is_wrong_elsewhere_holds_an_order_back_for_two_minutes_at_most(desk: Desk) -> None:
    wrong = desk.clock.now() + timedelta(days=1)
    with pytest.raises(AmbiguousOutcome):
        await desk.create(last_asked_at=wrong)
    desk.clock.push(121)
    await desk.create(last_asked_at=wrong)
    assert desk.emulator.keys == {"k1": 1}


@pytest.mark.parametrize("shape", ["true", "bare true"])
async def test_a_reply_that_is_just_true(desk: Desk, shape: Any) -> None:
    desk.emulator.order_reply = shape
    machine = await desk.create()
    assert machine.id == str(desk.emulator.machines[0].id)


async def test_a_reply_that_is_just_true_and_a_list_that_lags(desk: Desk) -> None:
    desk.emulator.order_reply, desk.emulator.lag_seconds = "true", 600
    machine = await desk.create()
    assert (machine.id, machine.state, machine.key) == ("", "provisioning", "k1")
    assert (await desk.list())["k1"].id == "", "VPSie said yes: it counts"
    desk.clock.push(300)
    assert (await desk.create()).id == ""
    desk.clock.push(300)
    assert (await desk.create()).id == str(desk.emulator.machines[0].id)
    assert desk.emulator.count("POST /vm") == 1


async def test_many_who_ask_at_once_in_one_process_get_one_machine(desk: Desk) -> None:
    machines = await asyncio.gather(*(desk.create() for _ in range(5)), *(desk.create("k2") for _ in range(5)))
    assert len({machine.id for machine in machines}) == 2
    assert desk.emulator.keys == {"k1": 1, "k2": 1}


async def test_nothing_is_ordered_without_having_looked(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", "lose request", times=3)
    with pytest.raises(ProviderUnreachable):
        await desk.create()
    assert desk.emulator.count("POST /vm") == 0


async def test_a_deletion_whose_reply_is_lost_is_sent_again(desk: Desk) -> None:
    machine = await desk.create()
    desk.emulator.fail("DELETE /vm", "lose reply")
    await desk.provider.delete(machine.id)
    assert desk.emulator.alive == []


async def test_a_deletion_that_nobody_can_vouch_for_is_no_success(desk: Desk) -> None:
    machine = await desk.create()
    desk.emulator.fail("DELETE /vm", "lose request", times=3)
    with pytest.raises(AmbiguousOutcome):
        await desk.provider.delete(machine.id)
    await desk.provider.delete(machine.id)
    assert desk.emulator.alive == []


async def test_a_page_that_says_404_is_no_word_about_a_machine(desk: Desk) -> None:
    machine = await desk.create()
    desk.emulator.fail("DELETE /vm", "html", times=3)
    with pytest.raises(AmbiguousOutcome, match="not from the VPSie API"):
        await desk.provider.delete(machine.id)
