"""Choose whole drives, or virtual drives on shared drives, for a container."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from plimsoll.controllers.allocation.shortage import Shortage, holders_text
from plimsoll.controllers.allocation.types import VirtualDrive
from plimsoll.controllers.allocation.usage import NodeUsage

# Never change it: a virtual drive's UUID derives from its container and number, so a retry yields the same one.
_NAMESPACE = uuid.UUID("6f1f0b0e-9c0c-4f5e-8f0a-1c9d2b7a4e55")


def choose_drives(count: int, usage: NodeUsage) -> tuple[str, ...] | Shortage:
    """The first `count` free drives in inventory order."""
    free = usage.free_drives()
    if count <= len(free):
        return tuple(free[:count])
    inventory = usage.inventory
    there = len(inventory.drives)
    blocked = sum(serial in inventory.blocked for serial in inventory.drives)
    taken: dict[str, int] = {}
    for serial in inventory.drives:
        for holder in usage.holders_of(serial)[:1]:
            taken[holder] = taken.get(holder, 0) + 1
    return Shortage(
        "InsufficientDrives",
        f"asked for {count} drives on node {usage.node}; {there} are there, {blocked} blocked, "
        f"{sum(taken.values())} taken, {len(free)} free{holders_text(taken)}",
    )


def choose_pieces(
    pieces_gib: Sequence[int], usage: NodeUsage, *, owner_uid: str, already: int
) -> tuple[VirtualDrive, ...] | Shortage:
    """Place each piece on the shared drive with the most free space, largest piece first; ties go to inventory order."""
    inventory = usage.inventory
    room = {drive.serial: usage.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared}
    by_serial = {drive.serial: drive for drive in inventory.shared}
    chosen = []
    for number, piece in enumerate(sorted(pieces_gib, reverse=True), start=already):
        serial = max(room, key=lambda name: room[name], default="")
        if not serial or room[serial] < piece:
            return _too_little(pieces_gib, usage)
        room[serial] -= piece
        drive = by_serial[serial]
        made = str(uuid.uuid5(_NAMESPACE, f"{owner_uid}/{number}"))
        chosen.append(VirtualDrive(made, drive.physical_uuid, piece, serial, drive.type))
    return tuple(chosen)


def _too_little(pieces_gib: Sequence[int], usage: NodeUsage) -> Shortage:
    inventory = usage.inventory
    rooms = [usage.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared]
    blocked = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in inventory.blocked)
    serials = {drive.serial for drive in inventory.shared}
    taken: dict[str, int] = {}
    for holding in usage.holdings:
        parts = sum(drive.capacity_gib for drive in holding.virtual_drives)
        whole = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in set(holding.drives) & serials)
        if parts + whole:
            taken[holding.holder] = taken.get(holding.holder, 0) + parts + whole
    return Shortage(
        "InsufficientDriveCapacity",
        f"asked for {sum(pieces_gib)} GiB in {len(pieces_gib)} virtual drives of up to {max(pieces_gib)} GiB on node "
        f"{usage.node}; {sum(drive.capacity_gib for drive in inventory.shared)} GiB are there on {len(rooms)} drives, "
        f"{blocked} blocked, {sum(taken.values())} taken, {sum(rooms)} free, {max(rooms, default=0)} of them on one drive"
        f"{holders_text(taken)}",
    )
