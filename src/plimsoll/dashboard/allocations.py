"""Who holds which drive and which ports of a node, where the controller that gives them out runs."""

from __future__ import annotations

from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS
from plimsoll.controllers.allocation.overview import overview
from plimsoll.dashboard.records import AllocationRecord, DriveRecord, PortsRecord
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES


def allocation_record(name: str, view: View, ports_per_container: int) -> AllocationRecord | None:
    """None for a node on which there is nothing to give and nobody who asks."""
    if WEKA_CONTAINERS not in view:
        return None
    containers = view[WEKA_CONTAINERS].by(BY_AFFINITY, name)
    told = overview(name, view[NODES].get("", name), containers, ports_per_container)
    drives = [
        DriveRecord(serial, one.container, one.state)
        for one in told.holders
        for serial in (*one.drives, *(f"{serial} ({gib} GiB)" for serial, gib in one.shared_gib.items()))
    ]
    drives += [DriveRecord(serial, None, "free") for serial in told.free_drives]
    drives += [DriveRecord(serial, None, "blocked") for serial in told.blocked_drives]
    drives += [DriveRecord(f"{one.serial} ({one.free_gib} GiB)", None, "free") for one in told.shared if one.free_gib]
    ports = [PortsRecord(*_range(text), one.container) for one in told.holders for text in one.ports]
    if not (drives or ports or told.waiting or told.problems):
        return None
    drives.sort(key=lambda one: one.device)
    ports.sort(key=lambda one: one.first)
    return AllocationRecord(drives, ports, list(told.waiting), [*told.conflicts, *told.problems])


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
