"""Allocation records: the drives and ports of a node and the containers that hold them."""

from __future__ import annotations

from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS
from plimsoll.controllers.allocation.overview import overview
from plimsoll.dashboard.records import AllocationRecord, DriveRecord, PortsRecord
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES


def allocation_record(name: str, view: View, ports_per_container: int) -> AllocationRecord | None:
    """The record of a node; None if it has neither drives nor containers."""
    if WEKA_CONTAINERS not in view:
        return None
    containers = view[WEKA_CONTAINERS].by(BY_AFFINITY, name)
    node = overview(name, view[NODES].get("", name), containers, ports_per_container)
    drives = [
        DriveRecord(serial, one.container, one.state)
        for one in node.holders
        for serial in (*one.drives, *(f"{serial} ({gib} GiB)" for serial, gib in one.shared_gib.items()))
    ]
    drives += [DriveRecord(serial, None, "free") for serial in node.free_drives]
    drives += [DriveRecord(serial, None, "blocked") for serial in node.blocked_drives]
    drives += [DriveRecord(f"{one.serial} ({one.free_gib} GiB)", None, "free") for one in node.shared if one.free_gib]
    ports = [PortsRecord(*_range(text), one.container) for one in node.holders for text in one.ports]
    if not (drives or ports or node.waiting or node.problems):
        return None
    drives.sort(key=lambda one: one.device)
    ports.sort(key=lambda one: one.first)
    return AllocationRecord(drives, ports, list(node.waiting), [*node.conflicts, *node.problems])


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
