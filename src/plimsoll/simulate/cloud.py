"""Where the machines of a simulated cluster come from: nodes of the embedded cluster, after the delays of `providers.kwok`.

Every NodeGroup gets its machines here, whatever provider it names: a simulation buys nothing. The cloud has a life of its own; an
operator that crashes leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from plimsoll.providers.errors import AmbiguousOutcome, OfferingUnavailable, ProviderUnreachable, QuotaExceeded
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Provider, Scope


class Watches(Protocol):
    """Told of every machine that is asked for or given back."""

    def bought(self, who: str, request: MachineRequest) -> None: ...

    def given_back(self, who: str, machine_id: str) -> None: ...


class Cloud:
    """What goes wrong in it, for all who ask."""

    def __init__(self, maker: Provider, revision: Callable[[], int]) -> None:
        """revision: of the cluster in which the machines are kept."""
        self.maker = maker
        self._revision = revision
        self.reachable = True
        self.quota: int | None = None  # of machines
        self.sold_out: set[str] = set()  # offerings
        self.lost_answers = 0  # of so many of the next calls that change something
        self.shows_old_lists = False
        self._shown: Sequence[Machine] = ()
        self._shown_at = -1

    def account(self, name: str, who: str, watches: Watches) -> Account:
        return Account(self, name, who, watches)

    async def machines(self) -> Sequence[Machine]:
        # Asked every few seconds of a day in which nothing happens: what cannot have changed is not read again.
        if not self.shows_old_lists and self._shown_at != self._revision():
            self._shown_at = self._revision()
            self._shown = await self.maker.list(Scope())
        return self._shown

    def answers(self) -> None:
        if not self.reachable:
            raise ProviderUnreachable("no route to the cloud")

    def loses_this_answer(self) -> bool:
        if self.lost_answers <= 0:
            return False
        self.lost_answers -= 1
        return True


class Account:
    """The cloud as one process of the operator reaches it: a `Provider`."""

    def __init__(self, cloud: Cloud, name: str, who: str, watches: Watches) -> None:
        self.name = name
        self._cloud = cloud
        self._who = who
        self._watches = watches

    async def capabilities(self) -> Capabilities:
        return await self._cloud.maker.capabilities()

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        self._cloud.answers()
        return await self._cloud.maker.offerings(datacenter)

    async def list(self, scope: Scope) -> Sequence[Machine]:
        self._cloud.answers()
        return [machine for machine in await self._cloud.machines() if machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        self._cloud.answers()
        there = await self._cloud.maker.list(Scope())
        if all(machine.key != request.key for machine in there):
            if request.offering in self._cloud.sold_out:
                raise OfferingUnavailable(f"{request.offering} is sold out")
            if self._cloud.quota is not None and len(there) >= self._cloud.quota:
                raise QuotaExceeded(f"{self._cloud.quota} machines are all that this account may have")
        self._watches.bought(self._who, request)
        machine = await self._cloud.maker.create(request)
        if self._cloud.loses_this_answer():
            raise AmbiguousOutcome("the connection was reset after the order was sent")
        return machine

    async def delete(self, machine_id: str) -> None:
        self._cloud.answers()
        self._watches.given_back(self._who, machine_id)
        await self._cloud.maker.delete(machine_id)
        if self._cloud.loses_this_answer():
            raise AmbiguousOutcome("the connection was reset after the order was sent")

    async def close(self) -> None:
        """The cloud goes on without whoever asked."""
