"""Neither too fast, nor too long, nor too much: the pace, the pauses, the time-out and the cap."""

from __future__ import annotations

import asyncio

import pytest

from plimsoll.providers.errors import AmbiguousOutcome, ProviderUnreachable, Throttled
from tests.vpsie.conftest import Desk


async def test_never_more_than_a_hundred_requests_in_a_minute(desk: Desk) -> None:
    for _ in range(250):
        await desk.list()
    assert desk.emulator.count("GET /vm") == 250, "nothing was refused and asked again"
    assert desk.clock.passed < 250, "and not much slower than is allowed"


async def test_a_short_pause_is_waited_out_also_with_an_order(desk: Desk) -> None:
    pause = (429, {"error": True, "message": "slow down", "headers": {"Retry-After": "3"}})
    desk.emulator.fail("POST /vm", pause)
    before = desk.clock.passed
    await desk.create()
    assert desk.clock.passed >= before + 3
    assert desk.emulator.keys == {"k1": 1}


@pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "40"}, 40), ({}, 60)])
async def test_a_long_pause_is_told_and_kept(desk: Desk, headers: dict[str, str], seconds: float) -> None:
    desk.emulator.fail("GET /vm", (429, {"error": True, "message": "slow down", "headers": headers}))
    with pytest.raises(Throttled) as refusal_error:
        await desk.list()
    assert refusal_error.value.retry_after_seconds == seconds
    sent = len(desk.emulator.requests)
    desk.clock.push(10)
    with pytest.raises(Throttled, match="not sent") as again:
        await desk.create()
    assert again.value.retry_after_seconds == pytest.approx(seconds - 10, abs=0.1)
    assert len(desk.emulator.requests) == sent
    desk.clock.push(seconds - 10)
    await desk.list()


async def test_a_pause_under_http_200_is_one_too(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", (200, {"error": True, "code": 429, "message": "Rate limit exceeded"}))
    with pytest.raises(Throttled):
        await desk.list()


async def test_a_read_without_a_reply_is_repeated_and_given_up(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", "lose reply", "lose request")
    await desk.list()
    assert desk.emulator.count("GET /vm") == 3
    desk.emulator.fail("GET /vm", "lose reply", times=3)
    with pytest.raises(ProviderUnreachable, match="GET /vm: no reply"):
        await desk.list()
    assert desk.emulator.count("GET /vm") == 6


async def test_a_read_takes_thirty_seconds_at_most(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", "hang")
    asking = asyncio.create_task(desk.list())
    await desk.emulator.hanging.wait()
    desk.clock.push(29)
    await asyncio.sleep(0)
    assert not asking.done()
    desk.clock.push(1)
    assert await asking == {}


async def test_five_failures_in_a_row_bring_thirty_seconds_of_peace(desk: Desk) -> None:
    await desk.list()
    for failures in (3, 2):
        desk.emulator.fail("GET /vm", (500, {"error": True, "message": "down"}), times=failures)
        with pytest.raises(ProviderUnreachable):
            await desk.list()
    sent = len(desk.emulator.requests)
    with pytest.raises(
        ProviderUnreachable, match=r"not called for \d+ s after 5 failures in a row; the last: GET /vm: 500"
    ):
        await desk.list()
    assert len(desk.emulator.requests) == sent
    desk.clock.push(30)
    await desk.list()
    await asyncio.gather(*(desk.list() for _ in range(3)))


async def test_after_the_pause_one_asks_before_all_do(desk: Desk) -> None:
    await desk.list()
    desk.emulator.fail("GET /vm", "lose request", times=5)
    for _ in range(2):
        with pytest.raises(ProviderUnreachable):
            await desk.list()
    desk.clock.push(30)
    sent = len(desk.emulator.requests)
    desk.emulator.fail("GET /vm", "hang")
    probe = asyncio.create_task(desk.list())
    await desk.emulator.hanging.wait()
    with pytest.raises(ProviderUnreachable, match="until another request is answered"):
        await desk.list()
    assert len(desk.emulator.requests) == sent + 1
    desk.clock.push(30)
    with pytest.raises(ProviderUnreachable, match=r"not called for \d+ s after 6 failures"):
        await probe
    desk.clock.push(30)
    await desk.list()


async def test_refusals_are_no_failures_of_the_service(desk: Desk) -> None:
    for _ in range(10):
        await desk.provider.delete("4711")
    await desk.list()


async def test_a_probe_that_is_cancelled_lets_the_next_one_ask(desk: Desk) -> None:
    await desk.list()
    desk.emulator.fail("GET /vm", "lose request", times=5)
    for _ in range(2):
        with pytest.raises(ProviderUnreachable):
            await desk.list()
    desk.clock.push(30)
    desk.emulator.fail("GET /vm", "hang")
    probe = asyncio.create_task(desk.list())
    await desk.emulator.hanging.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert await desk.list() == {}


async def test_a_reply_beyond_ten_megabytes_is_not_read_on(desk: Desk) -> None:
    desk.emulator.fail("GET /vm", "huge", times=3)
    with pytest.raises(ProviderUnreachable, match="larger than 10 MB"):
        await desk.list()


async def test_no_connection_means_that_nothing_was_ordered(desk: Desk) -> None:
    await desk.list()
    desk.secret["url"] = "http://127.0.0.1:1/v2"
    desk.start()
    with pytest.raises(ProviderUnreachable, match="no connection") as refusal_error:
        await desk.create()
    assert not isinstance(refusal_error.value, AmbiguousOutcome)
