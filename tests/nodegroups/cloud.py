"""A cloud in memory: it makes machines after a while, forgets replies, shows old lists, runs out, or makes what never joins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventory
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.providers.errors import AmbiguousOutcome, OfferingUnavailable, ProviderError, QuotaExceeded
from plimsoll.providers.protocol import Capabilities, Machine, Offering
from plimsoll.runtime.decision import CreateMachine


def offering(offering_id: str, cpu: str, memory: str, price: float = 0.1, **fields: Any) -> Offering:
    size = {"cpu": parse_quantity(cpu), "memory": parse_quantity(memory), "pods": parse_quantity("110")}
    return Offering(offering_id, capacity=size, price_per_hour=price, **fields)


SMALL, LARGE = offering("small", "2", "8Gi", 0.05), offering("large", "8", "32Gi", 0.2)


class Cloud:
    """Machines by id. What goes wrong is set by the test, or drawn from its random numbers."""

    def __init__(
        self, offerings: Sequence[Offering] = (SMALL, LARGE), *, makes: timedelta = timedelta(seconds=5)
    ) -> None:
        self.offerings = list(offerings)
        self.makes = makes
        self.machines: dict[str, Machine] = {}
        self.ready_at: dict[str, datetime] = {}
        self.by_key: dict[str, list[str]] = {}  # every machine ever made for a key
        self.quota: int | None = None
        self.sold_out: set[str] = set()
        self.never_join: set[str] = set()  # offerings whose machines never become nodes
        self.chooses_names = False  # nodes get names that the provider does not report
        self.startup_taint: tuple[str, timedelta | None] | None = None  # key, and when an agent removes it; None: never
        self.late: dict[
            str, timedelta
        ] = {}  # resources that a device plug-in registers so long after the node has joined
        self.reserved: dict[str, int] = {}  # what the kubelet keeps of each resource, in thousandths
        self.lost_replies = 0  # of the next so many calls, done or not
        self.unreachable = False
        self.stale = timedelta(0)  # lists show what was so long ago
        self._shown: list[tuple[datetime, list[Machine]]] = []
        self._numbers = itertools.count(1)

    def create(self, action: CreateMachine, now: datetime) -> Machine:
        request = action.request
        known = [self.machines[one] for one in self.by_key.get(request.key, ()) if one in self.machines]
        if self.unreachable:
            raise ProviderError("no route to the cloud")
        if not known:
            if request.offering in self.sold_out:
                raise OfferingUnavailable(f"{request.offering} is sold out")
            if self.quota is not None and len(self.machines) >= self.quota:
                raise QuotaExceeded(f"{self.quota} machines are all that you may have")
            machine = Machine(
                f"m{next(self._numbers)}", request.name, request.key, request.offering, request.datacenter, request.group,
            )  # fmt: skip
            self.machines[machine.id] = machine
            self.ready_at[machine.id] = now + self.makes
            self.by_key.setdefault(request.key, []).append(machine.id)
            known = [machine]
        if self.lost_replies > 0:
            self.lost_replies -= 1
            raise AmbiguousOutcome("the reply was lost")
        return known[0]

    def delete(self, machine_id: str) -> None:
        if self.unreachable:
            raise ProviderError("no route to the cloud")
        self.machines.pop(machine_id, None)
        if self.lost_replies > 0:
            self.lost_replies -= 1
            raise AmbiguousOutcome("the reply was lost")

    def node_name(self, machine: Machine) -> str:
        return f"ip-10-0-0-{machine.id}" if self.chooses_names else machine.name

    def _running(self, machine: Machine) -> Machine:
        return replace(machine, state="running", node_name="" if self.chooses_names else machine.name)

    def listing(self, now: datetime) -> ProviderInventory:
        shown = [
            machine if now < self.ready_at[machine.id] else self._running(machine) for machine in self.machines.values()
        ]
        self._shown.append((now, shown))
        shown = next((then for at, then in reversed(self._shown) if at <= now - self.stale), [])
        able = [one if one.id not in self.sold_out else _sold_out(one) for one in self.offerings]
        places = {"dc-1": tuple(able), "dc-2": tuple(able)}
        can = Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=False)
        return ProviderInventory.of(now, shown, places, can)


def _sold_out(one: Offering) -> Offering:
    return replace(one, available=False)
