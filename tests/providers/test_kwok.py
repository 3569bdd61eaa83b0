"""The provider `kwok` on a real control plane: nodes of the right size, once each, also across restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config.providers import Kwok, KwokOffering
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.core import Node, Taint
from plimsoll.kube.types.resources import CONFIGMAPS, NODES
from plimsoll.providers.errors import OfferingUnavailable, ProviderError, ProviderUnreachable
from plimsoll.providers.kwok.nodes import SELECTOR, order_name
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Scope
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.providers import build
from tools.controlplane.cluster import ControlPlane

HOUR = timedelta(hours=1)
SMALL = KwokOffering("small", cpu="2", memory="8Gi", pods=20, price=0.05, labels={"disk": "fast"})
AT_ONCE = Kwok(create_delay=timedelta(0), delete_delay=timedelta(0), offerings=(SMALL,))
SLOW = Kwok(create_delay=HOUR, delete_delay=HOUR, offerings=(SMALL,))


class Stage:
    """A namespace for the operator, and providers that come and go like its processes."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.clock = PushedClock()
        self.cluster = f"cluster-{uuid.uuid4().hex[:8]}"  # nodes are shared by all tests
        self.running: list[KwokProvider] = []
        self._number = 0

    def start(self, config: Kwok = SLOW) -> KwokProvider:
        provider = KwokProvider(config, self.client, self.namespace, self.clock)
        self.running.append(provider)
        return provider

    async def crash(self) -> None:
        for provider in self.running:
            await provider.close()
        self.running.clear()

    def request(self, **fields: Any) -> MachineRequest:
        self._number += 1
        return build.request(f"{self.cluster}-{self._number}", resource_identifier=self.cluster, **fields)

    def an_hour_later(self) -> None:
        """For whoever waits in this process, and for whoever starts only now."""
        self.clock.wall_offset += HOUR
        self.clock.push(HOUR.total_seconds())

    async def machines(self, provider: KwokProvider) -> list[Machine]:
        return list(await provider.list(Scope(self.cluster)))

    async def nodes(self) -> list[Node]:
        nodes = (await self.client.list(NODES, label_selector=SELECTOR)).items
        return [node for node in nodes if node.labels["plimsoll.dev/machine-key"].startswith(self.cluster)]

    async def orders(self) -> int:
        return len((await self.client.list(CONFIGMAPS, self.namespace, label_selector=SELECTOR)).items)


@pytest.fixture
async def stage(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Stage]:
    credentials = load_credentials(control_plane.kubeconfig)
    async with Client(credentials, clock=PushedClock(), qps=1000, burst=1000) as client:
        stage = Stage(client, namespace)
        yield stage
        await stage.crash()
        for node in await stage.nodes():
            await client.delete(NODES, "", node.name, uid=node.uid)


def states(machines: list[Machine]) -> dict[str, str]:
    return {machine.name: machine.state for machine in machines}


def there_are(stage: Stage, count: int) -> Callable[[], Any]:
    async def counted() -> bool:
        return len(await stage.nodes()) == count

    return counted


async def test_a_node_of_the_offering_appears_and_becomes_ready(stage: Stage) -> None:
    provider = stage.start(AT_ONCE)
    asked = stage.request(
        labels={"team": "blue"}, taints=(Taint("only", "NoSchedule", "blue"),), kubernetes_version="v1.36.3"
    )
    machine = await provider.create(asked)
    assert (machine.state, machine.key, machine.offering, machine.group) == ("running", asked.key, "small", "workers")
    (node,) = await stage.nodes()
    assert node.name == asked.name == machine.node_name
    (offering,) = await provider.offerings("anywhere")
    assert node.status.capacity == node.status.allocatable == offering.capacity
    assert offering.capacity["cpu"].milli == 2000
    assert offering.capacity["memory"].units == 8 * 2**30
    assert offering.capacity["pods"].units == 20
    assert offering.price_per_hour == 0.05
    assert {**offering.labels, "team": "blue", "disk": "fast"}.items() <= node.labels.items()
    assert Taint("only", "NoSchedule", "blue") in node.spec.taints
    assert node.spec.provider_id == f"kwok://{asked.key}"

    async def ready() -> bool:
        return (await stage.client.get(NODES, "", node.name)).ready

    await eventually(ready)


async def test_a_node_takes_its_time_to_appear_and_to_go(stage: Stage) -> None:
    provider = stage.start()
    asked = stage.request()
    assert (await provider.create(asked)).state == "provisioning"
    assert await stage.nodes() == []
    assert states(await stage.machines(provider)) == {asked.name: "provisioning"}
    stage.an_hour_later()
    await eventually(there_are(stage, 1))
    (machine,) = await stage.machines(provider)
    assert machine.state == "running"

    await provider.delete(machine.id)
    assert states(await stage.machines(provider)) == {asked.name: "deleting"}
    assert len(await stage.nodes()) == 1
    stage.an_hour_later()
    await eventually(there_are(stage, 0))
    assert await stage.machines(provider) == []
    assert await stage.orders() == 0


async def test_what_is_being_made_survives_a_restart_and_is_made_once(stage: Stage) -> None:
    asked = stage.request()
    first = await stage.start().create(asked)
    await stage.crash()
    provider = stage.start()
    assert await provider.create(asked) == first
    await stage.crash()
    stage.an_hour_later()
    provider = stage.start()
    await provider.list(Scope(stage.cluster))  # all that the next process has to do
    await eventually(there_are(stage, 1))
    await eventually(lambda: _no_orders(stage))
    again = await provider.create(asked)
    assert (again.id, again.state, again.created_at) == (first.id, "running", first.created_at)
    assert len(await stage.nodes()) == 1


async def _no_orders(stage: Stage) -> bool:
    return await stage.orders() == 0


async def test_a_deletion_survives_a_restart(stage: Stage) -> None:
    machine = await stage.start(AT_ONCE).create(stage.request())
    provider = stage.start()
    await provider.delete(machine.id)
    await provider.delete(machine.id)
    await stage.crash()
    stage.an_hour_later()
    provider = stage.start()
    assert [m.state for m in await stage.machines(provider)] == ["deleting"]
    await eventually(there_are(stage, 0))


async def test_many_who_ask_under_one_key_at_once_get_one_machine(stage: Stage) -> None:
    asked = stage.request()
    processes = [stage.start() for _ in range(3)]
    machines = await asyncio.gather(*(provider.create(asked) for provider in processes for _ in range(3)))
    assert len({machine.id for machine in machines}) == 1
    assert await stage.orders() == 1
    stage.an_hour_later()
    await eventually(lambda: _no_orders(stage))
    assert len(await stage.nodes()) == 1


async def test_one_that_was_not_made_yet_is_deleted_at_once(stage: Stage) -> None:
    provider = stage.start()
    machine = await provider.create(stage.request())
    await provider.delete(machine.id)
    assert await stage.machines(provider) == []
    stage.an_hour_later()
    other = await provider.create(stage.request())
    stage.an_hour_later()
    await eventually(there_are(stage, 1))
    assert [m.id for m in await stage.machines(provider)] == [other.id]


async def test_what_is_gone_already_is_deleted(stage: Stage) -> None:
    provider = stage.start(AT_ONCE)
    await provider.delete("never-there")
    machine = await provider.create(stage.request())
    (node,) = await stage.nodes()
    await stage.client.delete(NODES, "", node.name, uid=node.uid)
    await provider.delete(machine.id)
    with pytest.raises(NotFound):
        await stage.client.get(NODES, "", node.name)


async def test_a_list_names_the_machines_of_its_scope(stage: Stage) -> None:
    provider = stage.start()
    await provider.create(stage.request(group="a"))
    await stage.start(AT_ONCE).create(stage.request(group="a"))
    await provider.create(stage.request(group="b"))
    assert len(await provider.list(Scope(stage.cluster, "a"))) == 2
    assert len(await provider.list(Scope(stage.cluster, "b"))) == 1
    assert len(await provider.list(Scope(stage.cluster))) == 3
    assert len(await provider.list(Scope("another cluster"))) == 0
    assert len(await provider.list(Scope())) >= 3


async def test_an_offering_that_there_is_not_is_refused(stage: Stage) -> None:
    with pytest.raises(OfferingUnavailable, match=r'"huge"; providers\.kwok\.offerings has: small'):
        await stage.start().create(stage.request(offering="huge"))


async def test_a_name_that_another_has_is_never_taken(stage: Stage) -> None:
    provider = stage.start(AT_ONCE)
    theirs = await provider.create(stage.request())
    with pytest.raises(ProviderError, match=f"a node named {theirs.name} exists already"):
        await provider.create(stage.request(name=theirs.name))
    late = stage.start()
    waiting = await late.create(stage.request(name="node-of-two"))
    await provider.create(stage.request(name="node-of-two"))
    stage.an_hour_later()

    async def failed() -> Any:
        return next((m for m in await stage.machines(late) if m.id == waiting.id and m.state == "failed"), None)

    assert "a node named node-of-two exists already" in (await eventually(failed)).message
    await late.delete(waiting.id)
    assert await failed() is None


async def test_an_order_that_someone_has_spoilt_is_shown_as_failed(stage: Stage) -> None:
    provider = stage.start()
    asked = stage.request()
    await provider.create(asked)
    await stage.client.patch(CONFIGMAPS, stage.namespace, order_name(asked.key), {"data": {"order": "oh"}})
    await stage.crash()
    provider = stage.start()
    (machine,) = await provider.list(Scope())
    assert (machine.state, machine.key) == ("failed", asked.key)
    assert order_name(asked.key) in machine.message
    await provider.delete(machine.id)
    assert await stage.orders() == 0


async def test_a_node_that_the_api_server_refuses_is_shown_as_failed(stage: Stage) -> None:
    provider = stage.start()
    await provider.create(stage.request(labels={"a": "not a label!"}))
    stage.an_hour_later()

    async def failed() -> Any:
        return next((m for m in await stage.machines(provider) if m.state == "failed"), None)

    assert "a valid label must be" in (await eventually(failed)).message
    with pytest.raises(ProviderError, match="a valid label must be"):
        await stage.start(AT_ONCE).create(stage.request(labels={"a": "not a label!"}))


async def test_an_api_server_that_is_away_is_told_in_the_providers_words(
    control_plane: ControlPlane, namespace: str
) -> None:
    client = Client(load_credentials(control_plane.kubeconfig), clock=PushedClock())
    await client.close()
    provider = KwokProvider(SLOW, client, namespace, PushedClock())
    with pytest.raises(ProviderUnreachable):
        await provider.list(Scope())


async def test_what_can_be_relied_on(stage: Stage) -> None:
    assert await stage.start().capabilities() == Capabilities(
        idempotent_create=True, lists_by_group=True, makes_nodes=True
    )
