"""The provider `vpsie` for servers (virtual machines).

VPSie has no idempotency keys, its lists lag, and the reply to an order may be lost or just `true`. So each server carries its key
(`ownership`). `create` looks for the key before it orders, sends an order once, and after a lost reply does not order again until the
server would certainly be listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from weakref import WeakValueDictionary

from plimsoll.providers.errors import AmbiguousOutcome, MachineNotFound, ProviderError
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Scope
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.offerings import offerings_from_rows
from plimsoll.providers.vpsie.ownership import mark_for, mark_of, server_body, server_machine
from plimsoll.providers.vpsie.pages import list_all_pages
from plimsoll.providers.vpsie.recent_changes import RecentChanges
from plimsoll.providers.vpsie.replies import OfferingRow, UnexpectedReply, Vm, as_type, data_of
from plimsoll.runtime.clock import Clock

OFFERINGS_SECONDS = 300.0
_LOOK_AGAIN_SECONDS = (0.0, 2.0, 4.0)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


class ServersProvider:
    name = "vpsie"

    def __init__(self, api: VpsieApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lag = RecentChanges(clock)
        self._offerings: tuple[float, tuple[Offering, ...]] | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def close(self) -> None:
        await self._api.close()

    async def capabilities(self) -> Capabilities:
        return Capabilities(idempotent_create=False, lists_by_group=True, makes_nodes=False)

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        now = self._clock.monotonic()
        if self._offerings is None or now >= self._offerings[0] + OFFERINGS_SECONDS:
            rows = await list_all_pages(self._api, "/offerings", OfferingRow)
            self._offerings = (now, offerings_from_rows(rows))
        return [offering for offering in self._offerings[1] if not datacenter or offering.sold_in(datacenter)]

    async def list(self, scope: Scope) -> Sequence[Machine]:
        return [machine for machine in await self._machines() if machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        async with self._turns.setdefault(request.key, asyncio.Lock()):
            if machine := await self._find(request.key):
                return machine
            self._check_unanswered(request)
            try:
                reply = await self._api.order("/vm", server_body(request))
            except AmbiguousOutcome:
                self._lag.unanswered(request.key)
                if machine := await self._find_soon(request.key):
                    return machine
                raise
            except ProviderError:
                self._lag.refused(request.key)
                raise
            machine = await self._ordered(request, reply)
            self._lag.ordered(machine)
            return machine

    async def delete(self, machine_id: str) -> None:
        if not _ID.fullmatch(machine_id):
            raise ProviderError(f'"{machine_id}" is not the id of a machine of VPSie')
        with contextlib.suppress(MachineNotFound):  # gone already
            await self._api.delete(f"/vm/{machine_id}")
        self._lag.deleted(machine_id)

    async def _machines(self) -> Sequence[Machine]:
        rows = await list_all_pages(self._api, "/vm", Vm)
        marked = [(vm, mark) for vm in rows if not vm.is_deleted and (mark := mark_of(vm))]
        return self._lag.applied_to(server_machine(vm, mark) for vm, mark in marked)

    async def _find(self, key: str) -> Machine | None:
        """The machine of a key. Of two under one key, which only very long lags could cause, always the same one."""
        machines = [machine for machine in await self._machines() if machine.key == key and machine.state != "deleting"]
        if not machines:
            return None
        self._lag.answered(key)
        return min(machines, key=lambda machine: (len(machine.id), machine.id))

    async def _find_soon(self, key: str) -> Machine | None:
        """Looks a few times: most machines are listed within seconds."""
        for seconds in _LOOK_AGAIN_SECONDS:
            await self._clock.sleep(seconds)
            try:
                if machine := await self._find(key):
                    return machine
            except ProviderError:
                return None  # the next call looks again
        return None

    def _check_unanswered(self, request: MachineRequest) -> None:
        """Raises AmbiguousOutcome while the machine of an earlier order may still appear."""
        if request.last_asked_at is not None:
            self._lag.asked_before(request.key, request.last_asked_at)
        left = self._lag.unanswered_seconds_left(request.key)
        if left > 0:
            raise AmbiguousOutcome(
                f"machine {request.name} was ordered before without a reply and VPSie does not list it; "
                f"it is ordered again if it does not appear within {left:.0f} s"
            )
        self._lag.answered(request.key)

    async def _ordered(self, request: MachineRequest, reply: object) -> Machine:
        """The ordered machine, from the reply or from a list; without an id if neither shows it."""
        try:
            vm = as_type(data_of(reply), Vm, "the reply to an order")
        except UnexpectedReply:
            vm = Vm()  # `true`, or another reply that is no refusal
        if vm.id is not None:
            # The reply does not contain our mark.
            machine = server_machine(vm, mark_for(request))
            return machine if machine.name else _without_details(request, machine.id)
        return await self._find_soon(request.key) or _without_details(request, "")


def _without_details(request: MachineRequest, machine_id: str) -> Machine:
    return Machine(
        machine_id, request.name, request.key, request.offering, request.datacenter, request.group,
        message="ordered; VPSie does not list it yet", resource_identifier=request.resource_identifier,
    )  # fmt: skip
