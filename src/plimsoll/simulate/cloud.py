"""The simulated cloud: it creates machines as nodes of the embedded cluster, after the delays of `providers.kwok`.

Every NodeGroup gets its machines here, whatever provider it names, so a simulation buys nothing. The cloud outlives operator
processes: a crash does not change it. `World` builds it and gives each operator process a `CloudAccount`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from plimsoll.providers.errors import AmbiguousOutcome, OfferingUnavailable, ProviderUnreachable, QuotaExceeded
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Provider, Scope


class CloudListener(Protocol):
    """Receives every machine order and deletion."""

    def machine_ordered(self, who: str, request: MachineRequest) -> None: ...

    def machine_deleted(self, who: str, machine_id: str) -> None: ...


class Cloud:
    """The machines and the faults that all accounts share."""

    def __init__(self, provider: Provider, revision: Callable[[], int]) -> None:
        """revision: the current revision of the cluster that stores the machines."""
        self.provider = provider
        self._revision = revision
        self.reachable = True
        self.quota: int | None = None  # maximum number of machines
        self.sold_out: set[str] = set()  # offerings
        self.lost_answers = 0  # the number of following create and delete calls whose answer is lost
        self.serves_stale_lists = False
        self._listed: Sequence[Machine] = ()
        self._listed_at = -1

    def account(self, name: str, who: str, listener: CloudListener) -> CloudAccount:
        return CloudAccount(self, name, who, listener)

    async def machines(self) -> Sequence[Machine]:
        # The operator lists every few seconds, and most of a simulated day nothing changes: list again only after a change.
        if not self.serves_stale_lists and self._listed_at != self._revision():
            self._listed_at = self._revision()
            self._listed = await self.provider.list(Scope())
        return self._listed

    def require_reachable(self) -> None:
        if not self.reachable:
            raise ProviderUnreachable("no route to the cloud")

    def loses_this_answer(self) -> bool:
        if self.lost_answers <= 0:
            return False
        self.lost_answers -= 1
        return True


class CloudAccount:
    """A `Provider`: the cloud as one operator process reaches it."""

    def __init__(self, cloud: Cloud, name: str, who: str, listener: CloudListener) -> None:
        self.name = name
        self._cloud = cloud
        self._who = who
        self._listener = listener

    async def capabilities(self) -> Capabilities:
        return await self._cloud.provider.capabilities()

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        self._cloud.require_reachable()
        return await self._cloud.provider.offerings(datacenter)

    async def list(self, scope: Scope) -> Sequence[Machine]:
        self._cloud.require_reachable()
        return [machine for machine in await self._cloud.machines() if machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        self._cloud.require_reachable()
        there = await self._cloud.provider.list(Scope())
        if all(machine.key != request.key for machine in there):
            if request.offering in self._cloud.sold_out:
                raise OfferingUnavailable(f"{request.offering} is sold out")
            if self._cloud.quota is not None and len(there) >= self._cloud.quota:
                raise QuotaExceeded(f"the account's quota is {self._cloud.quota} machines")
        self._listener.machine_ordered(self._who, request)
        machine = await self._cloud.provider.create(request)
        if self._cloud.loses_this_answer():
            raise AmbiguousOutcome("the connection was reset after the order was sent")
        return machine

    async def delete(self, machine_id: str) -> None:
        self._cloud.require_reachable()
        self._listener.machine_deleted(self._who, machine_id)
        await self._cloud.provider.delete(machine_id)
        if self._cloud.loses_this_answer():
            raise AmbiguousOutcome("the connection was reset after the order was sent")

    async def close(self) -> None:
        """Nothing to close: the cloud outlives its accounts."""
