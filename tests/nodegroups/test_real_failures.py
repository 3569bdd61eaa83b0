"""Machines that cannot be had: the group backs off, another one helps, and people read why."""

from __future__ import annotations

from typing import Any

from plimsoll.providers.errors import QuotaExceeded
from plimsoll.providers.protocol import Machine, MachineRequest, Provider
from tests.eventually import eventually
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane


class Refusing:
    """A provider that has no quota left for one group."""

    def __init__(self, real: Provider, group: str) -> None:
        self._real, self._group, self.allows = real, group, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def create(self, request: MachineRequest) -> Machine:
        if request.group.endswith(self._group) and not self.allows:
            raise QuotaExceeded("the account may have 0 machines more")
        return await self._real.create(request)


async def test_another_group_helps_where_one_is_refused(control_plane: ControlPlane, stage: Stage) -> None:
    await stage.group("first")
    await stage.group("second", offeringIDs=["large"])
    await stage.workload("web", 1)
    wrapped: list[Refusing] = []

    def refusing(real: Provider) -> Any:
        wrapped.append(Refusing(real, "first"))
        return wrapped[0]

    async with operating(control_plane, config(stage.namespace), provider=refusing):
        await stage.settled(1, pods=1)
        (member,) = await stage.members()
        assert member.spec.node_group_name == "second"
        event = await stage.event("ScaleUpFailed")
        assert "the account may have 0 machines more" in event.note
        first = await eventually(lambda: _set_back(stage), "the setback is kept")
        assert first.status.backoffs[0].reason == "QuotaExceeded"


async def _set_back(stage: Stage):
    group = await stage.group_now("first")
    return group if group.status.backoffs else None
