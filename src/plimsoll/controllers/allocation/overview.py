"""Allocations, free and blocked drives and conflicts of a node, for `plimsoll allocation show` and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.allocation.container_nodes import nodes_of
from plimsoll.controllers.allocation.inventory import InvalidInventoryError, Inventory, read_inventory
from plimsoll.controllers.allocation.lease import held_by
from plimsoll.controllers.allocation.plan import open_request
from plimsoll.controllers.allocation.report import waiting_reason
from plimsoll.controllers.allocation.types import Clusters, WekaContainer
from plimsoll.controllers.allocation.usage import NodeUsage
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.core import Node


class NodeHolder(Struct, frozen=True, rename="camel"):
    container: str
    state: str  # committed, proposed, terminating
    drives: tuple[str, ...] = ()
    shared_gib: dict[str, int] = {}
    ports: tuple[str, ...] = ()


class SharedDriveUsage(Struct, frozen=True, rename="camel"):
    serial: str
    capacity_gib: int
    free_gib: int
    blocked: bool


class NodeOverview(Struct, frozen=True, rename="camel"):
    node: str
    exists: bool
    holders: tuple[NodeHolder, ...]
    free_drives: tuple[str, ...]
    blocked_drives: tuple[str, ...]
    shared: tuple[SharedDriveUsage, ...]
    waiting: tuple[str, ...]
    conflicts: tuple[str, ...]
    problems: tuple[str, ...]
    reasons: dict[str, str] = {}  # waiting container → why it waits, as its condition says
    lease: str = ""  # who holds the node's lease, and since when


def overview(
    name: str,
    node: Node | None,
    containers: Iterable[WekaContainer],
    ports_per_container: int,
    *,
    clusters: Clusters = (),
    lease: Lease | None = None,
) -> NodeOverview:
    """lease: the node's lease, if it was read."""
    here = [one for one in containers if name in nodes_of(one)]
    inventory, problems = Inventory(), tuple[str, ...]()
    try:
        inventory = read_inventory(node) if node is not None else inventory
    except InvalidInventoryError as error:
        problems = error.problems
    usage = NodeUsage(name, inventory, here, clusters)
    waiting = [one for one in here if open_request(one, name, ports_per_container, clusters) is not None]
    unserved = [*waiting, *(one for one in here if one not in waiting and one.node_name == name)]
    return NodeOverview(
        node=name,
        exists=node is not None,
        holders=tuple(
            NodeHolder(
                one.holder,
                "terminating" if one.terminating else "committed" if one.committed else "proposed",
                one.drives,
                _by_serial((drive.serial or drive.physical_uuid, drive.capacity_gib) for drive in one.virtual_drives),
                tuple(f"{first}-{last}" if last > first else str(first) for first, last in one.port_ranges),
            )
            for one in usage.holdings
        ),
        free_drives=tuple(usage.free_drives()),
        blocked_drives=tuple(sorted(inventory.blocked)),
        shared=tuple(
            SharedDriveUsage(
                drive.serial, drive.capacity_gib, usage.free_gib(drive.serial, drive.capacity_gib),
                drive.serial in inventory.blocked,
            )
            for drive in inventory.shared
        ),
        waiting=tuple(one.title for one in waiting),
        conflicts=tuple(conflict.message for conflict in usage.conflicts()),
        problems=problems,
        reasons={one.title: f"{why.code}: {why.message}" for one in unserved if (why := waiting_reason(one)) is not None},
        lease=held_by(lease) if lease is not None and lease.spec.holder_identity else "",
    )  # fmt: skip


def _by_serial(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for serial, amount in parts:
        sums[serial] = sums.get(serial, 0) + amount
    return sums
