"""Lists are whole or an error, and what they do not show yet is known all the same."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.providers.errors import ProviderUnreachable
from tests.vpsie.conftest import Desk


async def test_a_new_machine_is_listed_before_vpsie_lists_it(desk: Desk) -> None:
    desk.emulator.lag_seconds = 60
    machine = await desk.create()
    assert (await desk.list())["k1"].id == machine.id
    desk.clock.push(61)
    assert (await desk.list())["k1"].state == "running"


async def test_a_list_that_forgets_again_what_it_showed_changes_nothing(desk: Desk) -> None:
    await desk.create()
    assert set(await desk.list()) == {"k1"}
    desk.emulator.lag_seconds = 60  # answered by a server that is behind the other
    assert set(await desk.list()) == {"k1"}


async def test_a_machine_that_is_gone_is_not_listed_for_ever(desk: Desk) -> None:
    await desk.create()
    desk.emulator.machines.clear()  # someone deleted it elsewhere
    desk.clock.push(121)
    assert await desk.list() == {}


async def test_a_deleted_machine_that_is_still_listed_is_on_its_way_out(desk: Desk) -> None:
    machine = await desk.create()
    desk.clock.push(200)
    desk.emulator.lag_seconds = 60
    await desk.provider.delete(machine.id)
    assert (await desk.list())["k1"].state == "deleting"
    desk.clock.push(60)
    assert await desk.list() == {}


@pytest.mark.parametrize("shape", ["pagination", "total"])
async def test_every_page_is_read(desk: Desk, shape: Any) -> None:
    desk.emulator.page_size, desk.emulator.page_shape = 2, shape
    for number in range(5):
        await desk.create(f"k{number}")
    desk.start()
    assert set(await desk.list()) == {f"k{number}" for number in range(5)}


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "hostname": f"n{n}", "status": "running", "notes": f'plimsoll: {{"key":"k{n}"}}'} for n in numbers
    ]


async def test_pages_that_shift_while_they_are_read_are_read_again(desk: Desk) -> None:
    pages = {"total": 3, "total_pages": 2}
    first = (200, {"data": rows(1, 2), "pagination": pages})
    desk.emulator.fail("GET /vm", first, (200, {"data": rows(2), "pagination": pages}))
    desk.emulator.fail("GET /vm", first, (200, {"data": rows(3), "pagination": pages}))
    assert set(await desk.list()) == {"k1", "k2", "k3"}


@pytest.mark.parametrize(
    "reply",
    [
        {"data": rows(1, 2), "total": 3},  # and every page is the first
        {"data": rows(1, 2), "pagination": {"total": 3, "total_pages": 1}},
        {"data": None},
        {"error": False},
        {"data": {"vms": []}},
        {"data": [{"id": 1, "hostname": {"a": 1}}]},
        {"data": ["vm"]},
        {"data": [], "pagination": {"total": "many"}},
        "nothing",
    ],
)
async def test_a_part_of_a_list_is_never_taken_for_the_whole(desk: Desk, reply: Any) -> None:
    desk.emulator.fail("GET /vm", (200, reply), times=6)
    with pytest.raises(ProviderUnreachable):
        await desk.list()


async def test_no_machines_is_an_answer(desk: Desk) -> None:
    assert await desk.list() == {}
