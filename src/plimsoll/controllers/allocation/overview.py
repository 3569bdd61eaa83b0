"""Who holds what on a node, what is free, blocked and in conflict: for `plimsoll allocation show`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.container_nodes import nodes_of
from plimsoll.controllers.allocation.inventory import InvalidInventoryError, Inventory, read_inventory
from plimsoll.controllers.allocation.plan import ask_of
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.allocation.usage import Ledger
from plimsoll.kube.types.core import Node


class Holder(Struct, frozen=True, rename="camel"):
    container: str
    state: str  # committed, proposed, leaving
    drives: tuple[str, ...] = ()
    shared_gib: dict[str, int] = {}
    ports: tuple[str, ...] = ()


class SharedRoom(Struct, frozen=True, rename="camel"):
    serial: str
    capacity_gib: int
    free_gib: int
    blocked: bool


class NodeOverview(Struct, frozen=True, rename="camel"):
    node: str
    exists: bool
    holders: tuple[Holder, ...]
    free_drives: tuple[str, ...]
    blocked_drives: tuple[str, ...]
    shared: tuple[SharedRoom, ...]
    waiting: tuple[str, ...]
    conflicts: tuple[str, ...]
    problems: tuple[str, ...]


def overview(
    name: str, node: Node | None, containers: Iterable[WekaContainer], ports_per_container: int
) -> NodeOverview:
    here = [one for one in containers if name in nodes_of(one)]
    inventory, problems = Inventory(), tuple[str, ...]()
    try:
        inventory = read_inventory(node) if node is not None else inventory
    except InvalidInventoryError as error:
        problems = error.problems
    ledger = Ledger(name, inventory, here)
    return NodeOverview(
        node=name,
        exists=node is not None,
        holders=tuple(
            Holder(
                one.holder,
                "leaving" if one.leaving else "committed" if one.committed else "proposed",
                one.drives,
                _by_serial((drive.serial or drive.physical_uuid, drive.capacity_gib) for drive in one.virtual_drives),
                tuple(f"{first}-{last}" if last > first else str(first) for first, last in one.port_ranges),
            )
            for one in ledger.holdings
        ),
        free_drives=tuple(ledger.free_drives()),
        blocked_drives=tuple(sorted(inventory.blocked)),
        shared=tuple(
            SharedRoom(
                drive.serial, drive.capacity_gib, ledger.free_gib(drive.serial, drive.capacity_gib),
                drive.serial in inventory.blocked,
            )
            for drive in inventory.shared
        ),
        waiting=tuple(one.title for one in here if ask_of(one, name, ports_per_container) is not None),
        conflicts=tuple(conflict.message for conflict in ledger.conflicts()),
        problems=problems,
    )  # fmt: skip


def _by_serial(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for serial, amount in parts:
        sums[serial] = sums.get(serial, 0) + amount
    return sums
