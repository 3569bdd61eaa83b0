"""Nodes of a managed cluster: orders that carry no name, answers that are just `true`, and still one node a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from structlog.testing import capture_logs

from plimsoll.providers.errors import (
    AmbiguousOutcome,
    OfferingUnavailable,
    ProviderError,
    ProviderUnreachable,
    QuotaExceeded,
    Throttled,
)
from plimsoll.providers.protocol import Machine
from tests.vpsie.clock import SkippingClock
from tests.vpsie.cluster_api import ORDER, Desk
from tests.vpsie.emulator import Emulator, Node

MINUTE = 60.0


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with Emulator(SkippingClock()).running() as emulator, aclosing(Desk(emulator)) as desk:
        yield desk


async def test_a_node_from_its_order_to_its_end(desk: Desk) -> None:
    desk.emulator.node_seconds = MINUTE
    machine = await desk.create(group="ns.workers")
    assert (machine.key, machine.state, machine.node_name) == ("k1", "provisioning", "")
    assert desk.cluster.groups == {1: ("ns.workers-7", 7)}
    assert (await desk.create(group="ns.workers")).state == "provisioning"
    desk.clock.push(MINUTE)
    running = (await desk.list())["k1"]
    (node,) = desk.cluster.alive
    assert (running.id, running.state, running.group) == (machine.id, "running", "ns.workers")
    assert running.node_name == f"k8s-slave-{node.identifier}"
    await desk.provider.delete(machine.id)
    await desk.provider.delete(machine.id)
    assert (desk.cluster.alive, await desk.list(), desk.book.pages) == ([], {}, {})


async def test_an_answer_that_names_the_node_is_believed(desk: Desk) -> None:
    desk.emulator.order_reply, desk.emulator.node_seconds = "data", 10 * MINUTE
    await desk.create()
    desk.clock.push(5 * MINUTE)
    assert (await desk.list())["k1"].state == "provisioning", "a node that was never listed is not gone"
    desk.cluster.nodes.append(Node("uuid-of-a-person", 1, 0.0))
    desk.clock.push(5 * MINUTE)
    assert (await desk.list())["k1"].node_name == f"k8s-slave-{desk.cluster.nodes[0].identifier}"


async def test_many_of_one_kind_are_ordered_together_and_each_key_gets_one(desk: Desk) -> None:
    desk.emulator.node_seconds = MINUTE
    for number in range(4):
        await desk.create(f"k{number}")
    desk.clock.push(MINUTE)
    desk.start()
    machines = await desk.list()
    assert {machine.state for machine in machines.values()} == {"running"}
    assert len({machine.node_name for machine in machines.values()}) == 4
    assert len(desk.cluster.groups) == 1
    for _ in range(2):
        assert await desk.list() == machines, "who is who does not change"


async def test_a_node_that_is_ones_own_is_not_given_to_the_next(desk: Desk) -> None:
    desk.emulator.node_seconds = MINUTE
    await desk.create("k1")
    desk.clock.push(30)
    await desk.create("k2")
    desk.clock.push(30)
    for _ in range(2):
        assert {key: machine.state for key, machine in (await desk.list()).items()} == {
            "k1": "running", "k2": "provisioning",
        }  # fmt: skip
    desk.clock.push(30)
    assert len({machine.node_name for machine in (await desk.list()).values()}) == 2


async def test_another_kind_waits_until_the_first_can_be_told_apart(desk: Desk) -> None:
    desk.emulator.node_seconds = MINUTE
    await desk.create("k1", group="a")
    with pytest.raises(Throttled, match="could not be distinguished"):
        await desk.create("k2", group="b")
    desk.clock.push(MINUTE)
    await desk.create("k2", group="b")
    assert [node.group for node in desk.cluster.alive] == [1, 2]


@pytest.mark.parametrize("fault", ["lose reply", "garbage"])
async def test_a_node_whose_answer_was_lost_is_found_again_also_by_another_process(desk: Desk, fault: Any) -> None:
    desk.emulator.node_seconds = MINUTE
    desk.emulator.fail(ORDER, fault)
    with pytest.raises(AmbiguousOutcome):
        await desk.create()
    desk.start()
    with pytest.raises(AmbiguousOutcome, match="was ordered before"):
        await desk.create()
    assert (await desk.list())["k1"].state == "provisioning", "it may be on its way: it counts"
    desk.clock.push(MINUTE)
    assert (await desk.create()).state == "running"
    assert len(desk.cluster.alive) == 1


async def test_an_order_that_never_arrived_is_sent_anew_when_a_node_would_be_there(desk: Desk) -> None:
    desk.emulator.fail(ORDER, "lose request")
    with pytest.raises(AmbiguousOutcome):
        await desk.create()
    desk.clock.push(14 * MINUTE)
    with pytest.raises(AmbiguousOutcome):
        await desk.create()
    desk.clock.push(2 * MINUTE)
    await desk.create()
    assert len(desk.cluster.alive) == 1
    assert desk.emulator.count(ORDER) == 2


async def test_a_refused_order_leaves_nothing_behind(desk: Desk) -> None:
    desk.emulator.quota = 0
    with pytest.raises(QuotaExceeded, match="limit of 0 nodes"):
        await desk.create()
    assert (await desk.list(), desk.book.pages) == ({}, {})
    desk.emulator.quota = 1
    await desk.create()


async def test_one_that_is_deleted_before_it_is_there_is_deleted_when_it_comes(desk: Desk) -> None:
    desk.emulator.node_seconds = 5 * MINUTE
    machine = await desk.create()
    await desk.provider.delete(machine.id)
    assert (await desk.list())["k1"].state == "deleting"
    desk.start()
    desk.clock.push(5 * MINUTE)
    await desk.list()
    assert (desk.cluster.alive, desk.book.pages) == ([], {})


async def test_a_node_that_never_comes_has_failed_and_is_forgotten_in_the_end(desk: Desk) -> None:
    desk.emulator.node_seconds = 1e9
    machine = await desk.create()
    desk.clock.push(16 * MINUTE)
    failed = (await desk.list())["k1"]
    assert (failed.state, failed.message) == ("failed", "ordered 16 minutes ago and VPSie lists no new node")
    await desk.create("k2", group="other")  # it holds up nobody any more
    await desk.provider.delete(machine.id)
    assert (await desk.list())["k1"].state == "deleting"
    desk.clock.push(60 * MINUTE)
    assert "k1" not in await desk.list()


async def test_a_node_that_comes_very_late_is_deleted_if_nobody_wants_it(desk: Desk) -> None:
    desk.emulator.node_seconds = 30 * MINUTE
    machine = await desk.create()
    desk.clock.push(16 * MINUTE)
    await desk.provider.delete(machine.id)
    desk.clock.push(14 * MINUTE)
    await desk.list()
    assert desk.cluster.alive == []


async def test_a_new_node_goes_to_whom_it_is_due_and_not_to_one_given_up(desk: Desk) -> None:
    desk.emulator.fail(ORDER, "lose request")
    with pytest.raises(AmbiguousOutcome):
        await desk.create("k1")
    desk.clock.push(16 * MINUTE)
    await desk.provider.delete("k1")
    await desk.create("k2")
    machines = await desk.list()
    assert (machines["k1"].state, machines["k2"].state) == ("deleting", "running")
    assert len(desk.cluster.alive) == 1


async def test_nodes_that_nobody_ordered_are_never_taken_for_ours(desk: Desk) -> None:
    desk.cluster.nodes.append(Node("uuid-old", 1, 0.0))
    desk.emulator.node_seconds = MINUTE
    await desk.create()
    desk.cluster.nodes.append(Node("uuid-of-a-person", 1, 0.0))
    desk.clock.push(MINUTE)
    with capture_logs() as logs:
        assert (await desk.list())["k1"].state == "provisioning"
    assert "uuid-of-a-person" in logs[0]["nodes"]
    with pytest.raises(ProviderError, match=r"more new nodes .*uuid-of-a-person.* than were ordered"):
        await desk.create("k2")
    assert desk.emulator.count(ORDER) == 1
    desk.cluster.nodes[-1].deleted = True
    assert (await desk.list())["k1"].state == "running"


async def test_a_node_that_someone_else_removed_is_gone(desk: Desk) -> None:
    await desk.create()
    assert (await desk.list())["k1"].state == "running"
    desk.cluster.nodes[0].deleted = True
    assert (await desk.list())["k1"].state == "running", "a list that lags may hide a new node"
    desk.clock.push(3 * MINUTE)
    assert await desk.list() == {}
    desk.clock.push(60 * MINUTE)
    await desk.list()
    assert desk.book.pages == {}


async def test_nothing_is_ordered_that_is_not_written_down(desk: Desk) -> None:
    desk.book.closed = True
    with pytest.raises(ProviderUnreachable):
        await desk.create()
    assert desk.emulator.count(ORDER) == 0


async def test_two_processes_that_order_the_same_machine_at_once_order_one(desk: Desk) -> None:
    first, second = desk.provider, desk.start()
    desk.emulator.node_seconds = MINUTE
    asked = desk.request()
    answers = await asyncio.gather(first.create(asked), second.create(asked), return_exceptions=True)
    assert all(isinstance(answer, Machine | AmbiguousOutcome) for answer in answers)
    assert len(desk.cluster.alive) == 1
    desk.clock.push(MINUTE)
    assert (await second.create(asked)).state == (await first.create(asked)).state == "running"


async def test_what_is_sold_to_managed_clusters(desk: Desk) -> None:
    desk.emulator.offerings = [{"id": 7, "name": "S", "cpu": 2, "ram": 4096, "price": 73.0, "datacenter_id": "dc-1"}]
    (offering,) = await desk.provider.offerings("dc-1")
    assert (offering.id, offering.capacity["cpu"].milli) == ("7", 2000)
    assert list(await desk.provider.offerings("dc-2")) == []
    with pytest.raises(OfferingUnavailable, match='"small" is no size'):
        await desk.create(offering="small")


@pytest.mark.parametrize("cluster", ["", "../vm", "c1/delete"])
async def test_what_is_no_cluster_is_never_sent(desk: Desk, cluster: str) -> None:
    with pytest.raises(ProviderError, match="resourceIdentifier"):
        await desk.create(resource_identifier=cluster)
    assert desk.emulator.requests == []
