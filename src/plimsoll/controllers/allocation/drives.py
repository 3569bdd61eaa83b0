"""Choose whole drives, or virtual drives on shared drives, for a container."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.shortage import Shortage, holders_text
from plimsoll.controllers.allocation.spec import MOST_DRIVES, SMALLEST_PIECE_GIB, TLC, CapacityRequest
from plimsoll.controllers.allocation.types import VirtualDrive
from plimsoll.controllers.allocation.usage import NodeUsage

# Never change it: a virtual drive's UUID derives from its container and number, so a retry yields the same one.
_NAMESPACE = uuid.UUID("6f1f0b0e-9c0c-4f5e-8f0a-1c9d2b7a4e55")


def choose_drives(wanted: int, usage: NodeUsage) -> tuple[str, ...] | Shortage:
    """The first `wanted` free drives in inventory order."""
    free = usage.free_drives()
    if wanted <= len(free):
        return tuple(free[:wanted])
    inventory = usage.inventory
    there = len(inventory.drives)
    blocked = sum(serial in inventory.blocked for serial in inventory.drives)
    taken: dict[str, int] = {}
    for serial in inventory.drives:
        for holder in usage.holders_of(serial)[:1]:
            taken[holder] = taken.get(holder, 0) + 1
    return Shortage(
        "InsufficientDrives",
        f"asked for {wanted} drives on node {usage.node}; {there} are there, {blocked} blocked, "
        f"{sum(taken.values())} taken, {len(free)} free{holders_text(taken)}",
    )


def choose_capacity(
    requests: Sequence[CapacityRequest], usage: NodeUsage, *, owner_uid: str, held: Sequence[VirtualDrive] = ()
) -> tuple[VirtualDrive, ...] | Shortage:
    """Virtual drives for every request. If equal pieces do not fit, more and smaller ones are tried.

    held: the virtual drives that the container has already.
    """
    chosen: tuple[VirtualDrive, ...] = ()
    for one in requests:
        known = (*held, *chosen)
        first = found = choose_pieces(
            one.sizes(one.pieces), usage, owner_uid=owner_uid, held=known, drive_type=one.type
        )
        pieces = one.pieces
        while isinstance(found, Shortage) and not one.exact and pieces < MOST_DRIVES:
            pieces += 1
            if one.gib // pieces < SMALLEST_PIECE_GIB:
                break
            found = choose_pieces(one.sizes(pieces), usage, owner_uid=owner_uid, held=known, drive_type=one.type)
        if isinstance(found, Shortage):
            return first
        chosen += found
    return chosen


def choose_pieces(
    pieces_gib: Sequence[int],
    usage: NodeUsage,
    *,
    owner_uid: str,
    held: Sequence[VirtualDrive] = (),
    drive_type: str = "",
) -> tuple[VirtualDrive, ...] | Shortage:
    """Place each piece on the shared drive with the most free space, largest piece first; ties go to inventory order.

    drive_type: use drives of this type only; a drive without a type counts as TLC. Empty: any drive.
    """
    inventory = _of_type(usage.inventory, drive_type)
    room = {drive.serial: usage.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared}
    by_serial = {drive.serial: drive for drive in inventory.shared}
    uuids = {drive.virtual_uuid for drive in held}
    chosen: list[VirtualDrive] = []
    for piece in sorted(pieces_gib, reverse=True):
        serial = max(room, key=lambda name: room[name], default="")
        if not serial or room[serial] < piece:
            return _too_little(pieces_gib, usage, inventory, drive_type)
        room[serial] -= piece
        drive = by_serial[serial]
        # A removed virtual drive leaves a gap in the numbers, so the next number may be in use.
        numbers = count(len(held) + len(chosen))
        made = next(one for number in numbers if (one := _uuid(owner_uid, number, drive.physical_uuid)) not in uuids)
        uuids.add(made)
        chosen.append(VirtualDrive(made, drive.physical_uuid, piece, serial, drive.type))
    return tuple(chosen)


def _uuid(owner_uid: str, number: int, physical_uuid: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{owner_uid}/{number}/{physical_uuid}"))


def _of_type(inventory: Inventory, drive_type: str) -> Inventory:
    if not drive_type:
        return inventory
    return replace(inventory, shared=tuple(one for one in inventory.shared if (one.type or TLC) == drive_type))


def _too_little(pieces_gib: Sequence[int], usage: NodeUsage, inventory: Inventory, drive_type: str) -> Shortage:
    rooms = [usage.free_gib(drive.serial, drive.capacity_gib) for drive in inventory.shared]
    blocked = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in inventory.blocked)
    serials = {drive.serial for drive in inventory.shared}
    taken: dict[str, int] = {}
    for holding in usage.holdings:
        parts = sum(drive.capacity_gib for drive in holding.virtual_drives if usage.serial_of(drive) in serials)
        whole = sum(drive.capacity_gib for drive in inventory.shared if drive.serial in set(holding.drives) & serials)
        if parts + whole:
            taken[holding.holder] = taken.get(holding.holder, 0) + parts + whole
    where = f"{drive_type} drives of node {usage.node}" if drive_type else f"node {usage.node}"
    there = sum(drive.capacity_gib for drive in inventory.shared)
    return Shortage(
        "InsufficientDriveCapacity",
        f"asked for {sum(pieces_gib)} GiB in {len(pieces_gib)} virtual drives of up to {max(pieces_gib)} GiB on {where}; "
        f"{there} GiB are there on {len(rooms)} drives, {blocked} blocked, {sum(taken.values())} taken, {sum(rooms)} free, "
        f"{max(rooms, default=0)} of them on one drive{holders_text(taken)}",
    )
