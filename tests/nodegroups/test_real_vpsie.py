"""The provider `vpsie` under the node groups, on the real control plane: VPSie is emulated, its machines join as KWOK nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.config.providers import Providers, Vpsie
from plimsoll.kube.client.errors import AlreadyExists
from plimsoll.kube.types.resources import NODES
from plimsoll.providers.vpsie.provider import vpsie_provider
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually
from tests.nodegroups.live import Running, Stage, config, operating
from tests.vpsie.emulator import Emulator, Vm
from tools.controlplane.cluster import ControlPlane

QUICK = {"underutilizationDuration": "1s", "cooldownSeconds": 1}
SMALL = {"id": "small", "name": "S", "cpu": 2, "ram": 8192, "disk": 50, "hourly_price": 0.05, "datacenter_id": "dc-1"}
SECRET = {"clientId": "our-client-id", "clientSecret": "our-client-secret"}


class Cloud:
    """The emulator, and what a machine does by itself: it boots and joins the cluster under its own name."""

    def __init__(self, emulator: Emulator, stage: Stage) -> None:
        self.emulator, self.stage = emulator, stage
        self.lame = 0  # so many machines, the first, run and never join

    async def run(self) -> None:
        joined: set[int] = set()
        while True:
            now = self.emulator.clock.monotonic()
            for vm in self.emulator.machines[self.lame :]:
                if vm.id not in joined and vm.deleted_at is None and now >= vm.made_at + self.emulator.boot_seconds:
                    await self._join(vm)
                    joined.add(vm.id)
            await asyncio.sleep(0.05)

    async def _join(self, vm: Vm) -> None:
        name, size = str(vm.body["hostname"]), {"cpu": "2", "memory": "8Gi", "pods": "110"}
        body = {
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": name, "test/namespace": self.stage.namespace},
            },
            "spec": {"providerID": f"vpsie://{vm.id}"},
            "status": {"capacity": size, "allocatable": size},
        }
        try:
            await self.stage.client.create(NODES, "", body)
        except AlreadyExists:
            return


@pytest.fixture
async def cloud(control_plane: ControlPlane, stage: Stage) -> AsyncIterator[Cloud]:
    emulator = Emulator(RealClock(), offerings=[SMALL], boot_seconds=0.2)  # type: ignore[arg-type]
    async with emulator.running():
        one = Cloud(emulator, stage)
        life = asyncio.create_task(one.run())
        body = {"metadata": {"name": "vpsie-secret"}, "stringData": {**SECRET, "url": emulator.url}}
        control_plane.request("POST", f"/api/v1/namespaces/{stage.namespace}/secrets", body)
        yield one
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        for node in (await stage.client.list(NODES, label_selector=f"test/namespace={stage.namespace}")).items:
            await stage.client.delete(NODES, "", node.name, uid=node.uid)


def settings_in(namespace: str, **section: Any) -> Config:
    # A hundred requests a minute are all that VPSie answers: asked every other second, there is room for orders.
    quick = {"poll_interval": timedelta(seconds=2), **section}
    providers = Providers(enabled=("kwok", "vpsie"), vpsie=Vpsie(secret_namespace=namespace))
    return replace(config(namespace, **quick), providers=providers)


@asynccontextmanager
async def operator(cluster: ControlPlane, settings: Config) -> AsyncIterator[Running]:
    def made(setup: Any) -> Any:
        return {"vpsie": vpsie_provider(setup)}

    async with operating(cluster, settings, more_providers=made) as running:
        yield running


async def test_from_zero_to_what_pods_need_and_back_to_the_minimum(
    control_plane: ControlPlane,
    stage: Stage,
    cloud: Cloud,
) -> None:
    """The reply to the first order is lost; later the account's limit is reached, and another group helps out."""
    emulator = cloud.emulator
    emulator.fail("POST /vm", "lose reply")
    await stage.group("rented", provider="vpsie", minNodes=1, priority=10, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with operator(control_plane, settings_in(stage.namespace, expander="priority")):
        await stage.settled(2, pods=4)
        assert max(emulator.keys.values()) == 1, "a lost reply buys one machine"
        assert len(emulator.alive) == 2
        assert {vm.body["hostname"] for vm in emulator.alive} == {node.name for node in await stage.nodes()}

        emulator.quota = 2
        await stage.group("spare", scaleDownPolicy=QUICK)  # of the provider kwok
        await stage.scale("web", 6)
        await stage.settled(3, pods=6)
        assert "You have reached the limit of 2 servers" in (await stage.event("ScaleUpFailed")).note
        assert sorted(member.spec.node_group_name for member in await stage.members()) == ["rented", "rented", "spare"]

        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
        assert len(emulator.alive) == 1, "the minimum of the rented ones"
    assert all("our-client-secret" not in str(event.note) for event in await stage.events("ScaleUpFailed"))


async def test_a_machine_that_never_joins_is_replaced(
    control_plane: ControlPlane,
    stage: Stage,
    cloud: Cloud,
) -> None:
    """Fault 17: also with lists that lag behind."""
    emulator = cloud.emulator
    emulator.lag_seconds = 2.0
    cloud.lame = 1
    await stage.group("rented", provider="vpsie", scaleDownPolicy=QUICK)
    await stage.workload("web", 1)
    async with operator(control_plane, settings_in(stage.namespace, joining_timeout=timedelta(seconds=2))):
        await stage.settled(1, pods=1)
        assert "has not joined" in (await stage.event("ScaleUpFailed")).note
        await eventually(lambda: emulator.machines[0].deleted_at is not None, "the lame one is given back")
        assert len(emulator.alive) == 1
        assert max(emulator.keys.values()) == 1
