"""The leader dies in every phase of a node's lifecycle, on the real control plane, and the next leader continues from there."""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.nodegroups.scale_down.drain import CHOSEN
from plimsoll.controllers.nodegroups.types import PHASES
from plimsoll.providers.errors import QuotaExceeded
from plimsoll.providers.protocol import Machine, MachineRequest, Provider
from tests.faults.calls import Call
from tests.faults.faults import CrashAfter, Lens
from tests.faults.rules import on
from tests.faults.upstream import Json
from tests.nodegroups.ordeal import QUICK, Ordeal


class Entering:
    """The first write that brings any node into a phase, for each phase."""

    def __init__(self) -> None:
        self.entered: set[str] = set()

    def __call__(self, call: Call) -> bool:
        phase = _phase(call)
        if not phase or phase in self.entered:
            return False
        self.entered.add(phase)
        return True


def _phase(call: Call) -> str:
    if call.sort == "create vpsienodes":
        return "Pending"
    if call.sort != "patch vpsienodes/status":
        return ""
    status = call.json["status"]
    phase: str = status.get("phase", "")
    # One that failed is Terminating, too; here it is the drain of a node that serves.
    chosen = any(one["type"] == "Draining" and one["reason"] == CHOSEN for one in status.get("conditions", ()))
    return phase if phase != "Terminating" or chosen else ""


class RefusingOnce:
    """A provider that has no quota left for the first who asks."""

    def __init__(self) -> None:
        self.refused = False
        self._real: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def in_front_of(self, real: Provider) -> Any:
        self._real = real
        return self

    async def create(self, request: MachineRequest) -> Machine:
        if not self.refused:
            self.refused = True
            raise QuotaExceeded("the account may have 0 machines more")
        machine: Machine = await self._real.create(request)
        return machine


async def test_another_goes_on_in_every_phase(ordeal: Ordeal) -> None:
    """Faults 1 and 2, S6, S7, S10, L1 and L4: each time the phase is written down, and nobody hears of it."""
    stage, entering, provider = ordeal.stage, Entering(), RefusingOnce()

    def not_ready_before_it_joins(node: Json) -> Json:
        if "Joining" in entering.entered:
            return node
        conditions = [one for one in node["status"].get("conditions") or () if one["type"] != "Ready"]
        return node | {"status": node["status"] | {"conditions": conditions}}

    ordeal.rules.add(on("get list watch", "nodes"), Lens(not_ready_before_it_joins))
    ordeal.rules.add(entering, CrashAfter())
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    await ordeal.lives(lambda: stage.settled(1), provider=provider.in_front_of)
    await stage.change(desiredNodes=0)
    await ordeal.lives(lambda: stage.settled(0), provider=provider.in_front_of)
    assert entering.entered == set(PHASES)
    assert provider.refused
    await ordeal.was_safe(most=1)
