"""Which disks, or parts of disks, a container gets."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from plimsoll.controllers.allocation.shortage import Shortage, among
from plimsoll.controllers.allocation.types import VirtualDrive
from plimsoll.controllers.allocation.usage import Ledger

# Fixed for ever: a virtual drive's UUID follows from its container and its number, so that a repeat names the same one.
_NAMESPACE = uuid.UUID("6f1f0b0e-9c0c-4f5e-8f0a-1c9d2b7a4e55")


def choose_drives(count: int, ledger: Ledger) -> tuple[str, ...] | Shortage:
    """The first free disks in the node's own order."""
    free = ledger.free_drives()
    if count <= len(free):
        return tuple(free[:count])
    inventory = ledger.inventory
    there = len(inventory.drives)
    blocked = sum(serial in inventory.blocked for serial in inventory.drives)
    taken: dict[str, int] = {}
    for serial in inventory.drives:
        for holder in ledger.holders_of(serial)[:1]:
            taken[holder] = taken.get(holder, 0) + 1
    return Shortage(
        "InsufficientDrives",
        f"asked for {count} drives on node {ledger.node}; {there} are there, {blocked} blocked, "
        f"{sum(taken.values())} taken, {len(free)} free{among(taken)}",
    )


def choose_pieces(
    pieces_gib: Sequence[int], ledger: Ledger, *, owner_uid: str, already: int
) -> tuple[VirtualDrive, ...] | Shortage:
    """A part of the disk with the most room for each piece, the largest piece first; of equals, the node's first."""
    inventory = ledger.inventory
    room = {drive.serial: ledger.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared}
    by_serial = {drive.serial: drive for drive in inventory.shared}
    chosen = []
    for number, piece in enumerate(sorted(pieces_gib, reverse=True), start=already):
        serial = max(room, key=lambda name: room[name], default="")
        if not serial or room[serial] < piece:
            return _too_little(pieces_gib, ledger)
        room[serial] -= piece
        drive = by_serial[serial]
        made = str(uuid.uuid5(_NAMESPACE, f"{owner_uid}/{number}"))
        chosen.append(VirtualDrive(made, drive.physical_uuid, piece, serial, drive.type))
    return tuple(chosen)


def _too_little(pieces_gib: Sequence[int], ledger: Ledger) -> Shortage:
    inventory = ledger.inventory
    rooms = [ledger.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared]
    blocked = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in inventory.blocked)
    serials = {drive.serial for drive in inventory.shared}
    taken: dict[str, int] = {}
    for holding in ledger.holdings:
        parts = sum(drive.capacity_gib for drive in holding.virtual_drives)
        whole = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in set(holding.drives) & serials)
        if parts + whole:
            taken[holding.holder] = taken.get(holding.holder, 0) + parts + whole
    return Shortage(
        "InsufficientDriveCapacity",
        f"asked for {sum(pieces_gib)} GiB in {len(pieces_gib)} virtual drives of up to {max(pieces_gib)} GiB on node "
        f"{ledger.node}; {sum(drive.capacity_gib for drive in inventory.shared)} GiB are there on {len(rooms)} drives, "
        f"{blocked} blocked, {sum(taken.values())} taken, {sum(rooms)} free, {max(rooms, default=0)} of them on one drive"
        f"{among(taken)}",
    )
