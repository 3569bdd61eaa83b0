"""Nodes with other names, start-up taints and late resources, on the real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from plimsoll.kube.types.core import Taint
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.kube.types.resources import NODES
from plimsoll.providers.protocol import Machine, MachineRequest, Offering, Provider, Scope
from tests.eventually import eventually
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane

CILIUM = "node.cilium.io/agent-not-ready"
GPU = "example.com/gpu"


class Cloudlike:
    """KWOK's nodes as a cloud makes them: under names of its own, with a taint until an agent removes it, and with GPUs."""

    def __init__(self, inner: Provider, *, taint: str = "", gpus: int = 0, renames: bool = False) -> None:
        self._inner, self._taint, self._gpus, self._renames = inner, taint, gpus, renames
        self.name = inner.name

    async def create(self, request: MachineRequest) -> Machine:
        taints = (*request.taints, Taint(self._taint, "NoSchedule")) if self._taint else request.taints
        name = f"ip-{request.key[:8]}" if self._renames else request.name
        return self._shown(await self._inner.create(replace(request, taints=taints, name=name)))

    async def list(self, scope: Scope) -> Sequence[Machine]:
        return [self._shown(one) for one in await self._inner.list(scope)]

    def _shown(self, machine: Machine) -> Machine:
        return replace(machine, node_name="", name="unknown") if self._renames else machine

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        found = await self._inner.offerings(datacenter)
        gpus = {GPU: parse_quantity(str(self._gpus))} if self._gpus else {}
        return [replace(one, capacity={**one.capacity, **gpus}) for one in found]

    async def delete(self, machine_id: str) -> None:
        await self._inner.delete(machine_id)

    async def capabilities(self):
        return await self._inner.capabilities()

    async def close(self) -> None:
        await self._inner.close()


async def joining(stage: Stage) -> str:
    """The name of the only node, once its VPSieNode waits for it to become usable."""

    async def found() -> str:
        members = await stage.members()
        return members[0].status.node_name if [one.phase for one in members] == ["Joining"] else ""

    name: str = await eventually(found, "one node is joining")
    return name


async def test_a_startup_taint_buys_no_second_node_and_names_may_differ(
    control_plane: ControlPlane, stage: Stage
) -> None:
    await stage.group()
    await stage.workload("web", 1)
    async with operating(
        control_plane, config(stage.namespace), provider=lambda made: Cloudlike(made, taint=CILIUM, renames=True)
    ):
        name = await joining(stage)
        assert name.startswith("ip-")
        node = await stage.client.get(NODES, "", name)
        assert node.ready or await eventually(lambda: _is_ready(stage, name), "the node is Ready")
        await _decided_often()
        assert [one.phase for one in await stage.members()] == ["Joining"], "Ready is not usable"
        taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints]
        kept = [one for one in taints if one["key"] != CILIUM]
        await stage.client.patch(NODES, "", name, {"spec": {"taints": kept}})
        await stage.settled(1, pods=1)


async def test_a_late_device_plug_in_buys_no_second_node(control_plane: ControlPlane, stage: Stage) -> None:
    await stage.group()
    gpu = {"requests": {"cpu": "100m", GPU: "1"}, "limits": {GPU: "1"}}
    container = {"name": "main", "image": "example.org/none", "resources": gpu}
    await stage.workload("train", 1, pod={"containers": [container]})
    async with operating(control_plane, config(stage.namespace), provider=lambda made: Cloudlike(made, gpus=1)):
        name = await joining(stage)
        await _decided_often()
        assert [one.phase for one in await stage.members()] == ["Joining"]
        registered = {"status": {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}}
        await stage.client.patch(NODES, "", name, registered, subresource="status")
        await stage.settled(1, pods=1)
        (learned,) = (await stage.group_now()).status.offerings
        assert learned.allocatable[GPU].milli == 1000


async def _is_ready(stage: Stage, name: str) -> bool:
    return (await stage.client.get(NODES, "", name)).ready


async def _decided_often() -> None:
    """Time for several decisions about the groups: providers are polled three times a second here."""
    await asyncio.sleep(3)
