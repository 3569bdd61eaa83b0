"""S1: nothing of a node is given to two containers. S2: what a container has stays its own. S3: whoever writes it says of which
container, and in which state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, at, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.simulate.custom_kinds import CONTAINERS
from plimsoll.simulate.invariants.observed import title
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule

_LONGEST_RANGE = 100  # ports from wekaPort on, where nothing says how many


class Allocations(Rule):
    sees = (CONTAINERS.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._held: dict[str, frozenset[str]] = {}  # by UID of the container
        self._disks: dict[str, frozenset[str]] = {}  # of which it has a part

    def asked(self, call: Call) -> None:
        if call.plural != CONTAINERS.plural or not call.writes:
            return
        if not call.uid or not call.resource_version:
            self.broken("S3", f"an allocation is written without UID or resourceVersion: {call}")

    def changed(self, change: Change, call: Call | None) -> None:
        container, uid = change.object, uid_of(change.object)
        before = self._held.pop(uid, frozenset())
        self._disks.pop(uid, None)
        if change.type == "DELETED":
            return
        held, disks = frozenset(_committed(container)), frozenset(_shared(container))
        for other, things in self._held.items():
            for thing in sorted(held & things):
                self.broken("S1", f"{thing} is given to {title(container)} and to the container {other}")
            for thing in sorted((held & self._disks[other]) | (disks & things)):
                self.broken("S1", f"{thing} is given away whole and in parts, to {title(container)} and {other}")
        if call is not None and (lost := before - held):
            self.broken("S2", f"{title(container)} loses {', '.join(sorted(lost))}: {call}")
        self._held[uid], self._disks[uid] = held, disks


def _committed(container: Json) -> Iterator[str]:
    held, node = _allocations(container), _node(container)
    for serial in held.get("drives") or ():
        yield f"{node}: drive {serial}"
    for drive in held.get("virtualDrives") or ():
        yield f"{node}: virtual drive {drive['virtualUUID']}"
    if held.get("wekaPort"):
        for port in range(held["wekaPort"], held["wekaPort"] + _ports(container)):
            yield f"{node}: port {port}"
    if held.get("agentPort"):
        yield f"{node}: port {held['agentPort']}"


def _shared(container: Json) -> Iterator[str]:
    for drive in _allocations(container).get("virtualDrives") or ():
        yield f"{_node(container)}: drive {drive.get('serial', '')}"


def _allocations(container: Json) -> Json:
    found: Json = at(container, "status", "allocations", default={}) or {}
    return found


def _node(container: Json) -> str:
    return str(at(container, "spec", "nodeAffinity", default="") or at(container, "status", "nodeAffinity", default=""))


def _ports(container: Json) -> int:
    for one in at(container, "status", "conditions", default=[]):
        if one["type"] == "Allocated" and (found := re.search(r"\bports (\d+)-(\d+)", one.get("message", ""))):
            return int(found[2]) - int(found[1]) + 1
    return _LONGEST_RANGE
