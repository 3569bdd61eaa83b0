"""Parse the drive inventory from a node's annotations.

The storage operator writes the annotations when it signs drives; Plimsoll only reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.kube.types.core import Node

DRIVES = "weka.io/weka-drives"  # ["SERIAL", …]
FULL_DRIVES = "weka.io/weka-full-drives"  # [{"serial": "SERIAL", …}, …], of later versions
BLOCKED = "weka.io/blocked-drives"  # ["SERIAL", …]
SHARED = (
    "weka.io/weka-shared-drives"  # [{"physical_uuid", "serial", "capacity_gib", "type"}] or [[uuid, serial, GiB, path]]
)
BLOCKED_UUIDS = "weka.io/blocked-drives-physical-uuids"  # ["UUID", …]


class SharedDrive(Struct, frozen=True):
    physical_uuid: str
    serial: str
    capacity_gib: int
    type: str = ""


class Inventory(Struct, frozen=True):
    """The drives of a node, in the order in which they are allocated."""

    drives: tuple[str, ...] = ()
    shared: tuple[SharedDrive, ...] = ()
    blocked: frozenset[str] = frozenset()  # serials; drives blocked by UUID are included by serial

    def serial_of(self, physical_uuid: str) -> str:
        return next((drive.serial for drive in self.shared if drive.physical_uuid == physical_uuid), "")


class InvalidInventoryError(Exception):
    """Annotations that do not parse; one sentence per problem with annotation and value."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class _FullDrive(Struct):
    serial: str


class _SharedEntry(Struct):
    physical_uuid: str
    serial: str
    capacity_gib: int
    type: str = ""


def read_inventory(node: Node) -> Inventory:
    """The node's drives. Raises InvalidInventoryError if an annotation is invalid."""
    problems: list[str] = []
    annotations = node.annotations
    legacy = _read(annotations, DRIVES, list[str], problems) or []
    full = _read(annotations, FULL_DRIVES, list[_FullDrive], problems) or []
    shared = _shared(annotations, problems)
    blocked = set(_read(annotations, BLOCKED, list[str], problems) or [])
    blocked_uuids = set(_read(annotations, BLOCKED_UUIDS, list[str], problems) or [])
    full_serials = [drive.serial for drive in full]
    for key, serials in (
        (DRIVES, legacy),
        (FULL_DRIVES, full_serials),
        (SHARED, [drive.serial for drive in shared]),
        (SHARED, [drive.physical_uuid for drive in shared]),
    ):
        problems += [
            f'annotation {key} of node {node.name} names "{serial}" {count} times; expected each drive once'
            for serial, count in Counter(serials).items()
            if count > 1
        ]
        if "" in serials:
            problems.append(f"annotation {key} of node {node.name} names a drive without a serial or UUID")
    problems += [
        f'annotation {SHARED} of node {node.name} gives "{drive.serial}" {drive.capacity_gib} GiB; expected more than 0'
        for drive in shared
        if drive.capacity_gib <= 0
    ]
    if problems:
        raise InvalidInventoryError(problems)
    by_uuid = {drive.serial for drive in shared if drive.physical_uuid in blocked_uuids}
    return Inventory(tuple(dict.fromkeys([*full_serials, *legacy])), shared, frozenset(blocked | by_uuid))


def _shared(annotations: Mapping[str, str], problems: list[str]) -> tuple[SharedDrive, ...]:
    entries = _read(annotations, SHARED, list[_SharedEntry | tuple[str, str, int, str]], problems) or []
    return tuple(
        SharedDrive(entry.physical_uuid, entry.serial, entry.capacity_gib, entry.type)
        if isinstance(entry, _SharedEntry)
        else SharedDrive(entry[0], entry[1], entry[2])
        for entry in entries
    )


def _read(annotations: Mapping[str, str], key: str, kind: Any, problems: list[str]) -> Any:
    text = annotations.get(key, "")
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        shown = text if len(text) <= 80 else f"{text[:77]}…"
        problems.append(f"annotation {key} is {shown!r}, which cannot be read: {error}; expected a JSON list of drives")
        return None
