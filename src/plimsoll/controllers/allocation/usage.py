"""Drives and ports in use on a node and who holds them: committed and proposed, whole drives and virtual drives.

Drives are keyed by serial, so a drive that is allocated whole cannot also be shared, and vice versa.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from plimsoll.controllers.allocation.conditions import UNREADABLE, Proposal, ports_held, proposal_of
from plimsoll.controllers.allocation.container_nodes import holding_nodes
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.spec import cluster_range, reserved_range
from plimsoll.controllers.allocation.types import Clusters, VirtualDrive, WekaContainer, ports_of_cluster


class Holding(Struct, frozen=True):
    """What one container holds on one node, or will hold once its proposal is committed."""

    uid: str
    holder: str  # namespace/name
    drives: tuple[str, ...] = ()
    virtual_drives: tuple[VirtualDrive, ...] = ()
    weka_port: int = 0
    ports: int = 0
    agent_port: int = 0
    committed: bool = True
    terminating: bool = False  # of the container; its resources are free once it is deleted

    @property
    def port_ranges(self) -> Iterator[tuple[int, int]]:
        if self.weka_port:
            yield self.weka_port, self.weka_port + max(self.ports, 1) - 1
        if self.agent_port:
            yield self.agent_port, self.agent_port


class PortsTaken(Struct, frozen=True):
    first: int
    last: int
    holder: str


def holdings_on(node: str, container: WekaContainer) -> Iterator[Holding]:
    """What the container holds on the node, then what is proposed for it there."""
    has = container.allocations
    if node in holding_nodes(container):
        yield Holding(
            container.uid, container.title, has.drives or (), has.virtual_drives, has.weka_port, ports_held(container),
            has.agent_port, terminating=container.terminating,
        )  # fmt: skip
    proposal = proposal_of(container)
    if proposal is not None and proposal.node == node and proposal.epoch != UNREADABLE:
        yield proposed_holding(container, proposal)


def proposed_holding(container: WekaContainer, proposal: Proposal) -> Holding:
    return Holding(
        container.uid, container.title, proposal.drives, proposal.virtual_drives, proposal.weka_port, proposal.ports,
        proposal.agent_port, committed=False, terminating=container.terminating,
    )  # fmt: skip


class AllocationConflict(Struct, frozen=True):
    """A drive or port that several containers hold. Plimsoll never causes this; a person must resolve it."""

    holders: tuple[str, ...]  # namespace/name
    message: str


class NodeUsage:
    """What is in use on one node. Built anew from each live list; entries are only added."""

    def __init__(
        self,
        node: str,
        inventory: Inventory,
        containers: Iterable[WekaContainer] = (),
        clusters: Clusters = (),
    ) -> None:
        self.node = node
        self.inventory = inventory
        self.holdings: list[Holding] = []
        self.ports: list[PortsTaken] = []
        self._whole: dict[str, list[str]] = {}  # serial → holders
        self._parts: dict[str, dict[str, int]] = {}  # serial → holder → GiB
        self._reserved: list[tuple[int, int, str]] = []  # first, last, cluster
        self.cluster_ports: list[tuple[int, int]] = []  # single ports of the storage clusters on this node
        for container in containers:
            for holding in holdings_on(node, container):
                self.enter(holding)
            if (reserved := reserved_range(container)) is not None and container.node_name == node:
                self._reserved.append((*reserved, container.cluster))
            cluster = ports_of_cluster(container, clusters)
            if cluster is not None and container.node_name == node:
                self.cluster_ports += [(port, port) for port in cluster.single_ports]
                if (whole := cluster_range(cluster)) is not None:
                    self._reserved.append((*whole, container.cluster))

    def enter(self, holding: Holding) -> None:
        self.holdings.append(holding)
        for serial in holding.drives:
            self._whole.setdefault(serial, []).append(holding.holder)
        for drive in holding.virtual_drives:
            parts = self._parts.setdefault(self.serial_of(drive), {})
            parts[holding.holder] = parts.get(holding.holder, 0) + drive.capacity_gib
        self.ports += [PortsTaken(first, last, holding.holder) for first, last in holding.port_ranges]

    def serial_of(self, drive: VirtualDrive) -> str:
        """Allocations of others may lack the serial; the UUID stands for it if the inventory does not know it."""
        return drive.serial or self.inventory.serial_of(drive.physical_uuid) or drive.physical_uuid

    def holders_of(self, serial: str) -> tuple[str, ...]:
        return (*self._whole.get(serial, ()), *self._parts.get(serial, ()))

    def free_drives(self) -> list[str]:
        """Serials of free whole drives, in inventory order."""
        return [s for s in self.inventory.drives if s not in self.inventory.blocked and not self.holders_of(s)]

    def free_gib(self, serial: str, capacity_gib: int) -> int:
        """Free GiB of a shared drive; 0 if it is blocked or allocated whole."""
        if serial in self.inventory.blocked or serial in self._whole:
            return 0
        return max(0, capacity_gib - sum(self._parts.get(serial, {}).values()))

    def ranges_of_other_clusters(self, cluster: str) -> list[tuple[int, int]]:
        return [(first, last) for first, last, owner in self._reserved if owner != cluster]

    def conflicts(self) -> Iterator[AllocationConflict]:
        for serial, holders in self._whole.items():
            everyone = self.holders_of(serial)
            if len(everyone) > 1 or len(holders) > 1:
                names = tuple(dict.fromkeys(everyone))
                yield AllocationConflict(names, f"drive {serial} is held by {' and '.join(names)}")
        for shared in self.inventory.shared:
            parts = self._parts.get(shared.serial, {})
            if (used := sum(parts.values())) > shared.capacity_gib:
                message = f"drive {shared.serial} has {shared.capacity_gib} GiB, of which {used} are allocated"
                yield AllocationConflict(tuple(parts), message)
        widest: PortsTaken | None = None
        for port in sorted(self.ports, key=lambda taken: (taken.first, taken.last)):
            if widest is not None and port.first <= widest.last and port.holder != widest.holder:
                names = (widest.holder, port.holder)
                yield AllocationConflict(names, f"port {port.first} is held by {' and '.join(names)}")
            if widest is None or port.last > widest.last:
                widest = port

    def tokens(self) -> frozenset[str]:
        """Ids of everything in use. What a later call lacks was freed in between."""
        names = [f"port {first}" for holding in self.holdings for first, _ in holding.port_ranges]
        names += [f"drive {serial}" for holding in self.holdings for serial in holding.drives]
        names += [drive.virtual_uuid for holding in self.holdings for drive in holding.virtual_drives]
        return frozenset(names)
