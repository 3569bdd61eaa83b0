"""The five verbs on a good day."""

from __future__ import annotations

import pytest

from plimsoll.providers.errors import ProviderError
from plimsoll.providers.protocol import Capabilities, Scope
from tests.vpsie.conftest import Desk


async def test_a_machine_from_its_order_to_its_end(desk: Desk) -> None:
    machine = await desk.create("k1", group="workers")
    assert (machine.key, machine.name, machine.state, machine.group) == ("k1", "node-k1", "provisioning", "workers")
    assert machine.offering == "small"
    desk.clock.push(60)
    (shown,) = (await desk.list()).values()
    assert (shown.id, shown.state, shown.node_name) == (machine.id, "running", "node-k1")
    assert shown.addresses == (f"192.0.2.{int(machine.id) % 250}",)
    assert shown.created_at is not None

    await desk.provider.delete(machine.id)
    assert desk.emulator.alive == []
    await desk.provider.delete(machine.id)
    assert await desk.list() == {}


async def test_what_an_order_says(desk: Desk) -> None:
    await desk.create(
        "k1", image="img", ssh_keys=("s1", "s2"), project="p1", tags=("blue",), notes="made for blue", datacenter="dc-9"
    )
    (vm,) = desk.emulator.machines
    expected = {
        "name": "node-k1", "hostname": "node-k1", "offering_id": "small", "datacenter_id": "dc-9", "os_image_id": "img",
        "resourceIdentifier": "cluster-1", "projectId": "p1", "ssh_key_ids": ["s1", "s2"],
    }  # fmt: skip
    assert expected.items() <= vm.body.items()
    assert vm.body["notes"].startswith("made for blue\n")
    assert vm.body["tags"][0] == "blue"


async def test_the_same_key_gets_the_same_machine(desk: Desk) -> None:
    first = await desk.create()
    assert (await desk.create()).id == first.id
    desk.start()
    assert (await desk.create()).id == first.id
    assert desk.emulator.keys == {"k1": 1}


@pytest.mark.parametrize(("tags", "notes"), [(True, False), (False, True)])
async def test_a_machine_is_known_again_by_its_tags_or_by_its_notes(desk: Desk, tags: bool, notes: bool) -> None:
    desk.emulator.keeps_tags, desk.emulator.keeps_notes = tags, notes
    first = await desk.create(group="g")
    desk.start()
    assert (await desk.create(group="g")).id == first.id
    (shown,) = await desk.provider.list(Scope("cluster-1", "g"))
    assert (shown.id, shown.key, shown.group) == (first.id, "k1", "g")


async def test_a_list_names_ours_alone_and_those_of_its_scope(desk: Desk) -> None:
    await desk.create("k1", group="a")
    await desk.create("k2", group="b")
    await desk.create("k3", group="a", resource_identifier="cluster-2")
    await desk.create("k4", notes="", tags=())
    theirs = desk.emulator.machines[-1]
    theirs.body = {"hostname": "node-k1", "notes": "plimsoll: by hand", "tags": ["plimsoll"]}
    desk.clock.push(1000)  # beyond all that is remembered
    assert set(await desk.list()) == {"k1", "k2", "k3"}
    assert set(await desk.list(Scope("cluster-1"))) == {"k1", "k2"}
    assert set(await desk.list(Scope("cluster-1", "a"))) == {"k1"}


async def test_a_machine_that_never_boots_stays_what_it_is(desk: Desk) -> None:
    desk.emulator.never_boot.add("node-k1")
    await desk.create()
    desk.clock.push(7200)
    assert (await desk.list())["k1"].state == "provisioning"


@pytest.mark.parametrize(
    ("status", "state"),
    [("running", "running"), ("Active", "running"), ("error", "failed"), ("deleting", "deleting"),
     ("stopped", "provisioning"), ("something new", "provisioning"), (None, "provisioning")],
)  # fmt: skip
async def test_what_vpsie_calls_a_state(desk: Desk, status: str | None, state: str) -> None:
    row = {"id": 5, "hostname": "n", "status": status, "notes": 'plimsoll: {"key":"k1"}'}
    desk.emulator.fail("GET /vm", (200, {"error": False, "data": [row]}))
    machine = (await desk.list())["k1"]
    assert machine.state == state
    assert machine.message == ("" if status == "running" else (status or "").lower())


async def test_offerings_by_datacenter(desk: Desk) -> None:
    common = {"name": "Small", "cpu": 2, "ram": 4096, "disk": 80, "hourly_price": 0.02, "available": True}
    desk.emulator.offerings = [
        {"id": "s", "datacenter_id": "dc-1", **common},
        {"id": "s", "datacenter_id": "dc-2", **common},
        {"id": "m", "datacenter_id": "dc-1", **common, "hourly_price": None, "price": 73.0},
        {"id": "gone", "datacenter_id": "dc-1", **common, "available": False},
        {"id": "any", **common, "name": None},
    ]
    everywhere = {offering.id: offering for offering in await desk.provider.offerings("")}
    assert set(everywhere) == {"s", "m", "gone", "any"}
    assert everywhere["s"].datacenters == ("dc-1", "dc-2")
    assert {offering.id for offering in await desk.provider.offerings("dc-2")} == {"s", "any"}
    small = everywhere["s"].capacity
    assert (small["cpu"].milli, small["memory"].units) == (2000, 4 * 2**30)
    assert (small["ephemeral-storage"].units, small["pods"].units) == (80 * 10**9, 110)
    assert everywhere["m"].price_per_hour == pytest.approx(0.1)
    assert [offering.available for offering in everywhere.values()] == [True, True, False, True]
    assert desk.emulator.count("GET /offerings") == 1
    desk.clock.push(300)
    await desk.provider.offerings("dc-1")
    assert desk.emulator.count("GET /offerings") == 2


@pytest.mark.parametrize("machine_id", ["", "../offerings", "1/2", "a?b", "1 2"])
async def test_what_is_no_id_is_never_sent(desk: Desk, machine_id: str) -> None:
    with pytest.raises(ProviderError, match="is not the id of a machine"):
        await desk.provider.delete(machine_id)
    assert desk.emulator.requests == []


async def test_what_can_be_relied_on(desk: Desk) -> None:
    assert await desk.provider.capabilities() == Capabilities(
        idempotent_create=False, lists_by_group=True, makes_nodes=False
    )
