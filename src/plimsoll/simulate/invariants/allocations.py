"""S1: no drive or port of a node is allocated to two containers. S2: a container keeps its allocation. S3: every write of an
allocation carries the container's UID and resourceVersion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, at, uid_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.custom_kinds import CONTAINERS
from plimsoll.simulate.invariants.observed import display_name
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant

_LONGEST_RANGE = 100  # ports from wekaPort on, where nothing says how many


class AllocationInvariants(Invariant):
    watched_kinds = (CONTAINERS.storage_key,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._held: dict[str, frozenset[str]] = {}  # by UID of the container
        self._disks: dict[str, frozenset[str]] = {}  # drives that the container shares

    def request_received(self, call: OperatorRequest) -> None:
        if call.plural != CONTAINERS.plural or not call.writes:
            return
        if not call.uid or not call.resource_version:
            self.violated("S3", f"allocation written without uid or resourceVersion: {call}")

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:
        container, uid = change.object, uid_of(change.object)
        before = self._held.pop(uid, frozenset())
        self._disks.pop(uid, None)
        if change.type == "DELETED":
            return
        held, disks = frozenset(_committed(container)), frozenset(_shared(container))
        for other, things in self._held.items():
            for thing in sorted(held & things):
                self.violated("S1", f"{thing} is allocated to {display_name(container)} and to container {other}")
            for thing in sorted((held & self._disks[other]) | (disks & things)):
                self.violated("S1", f"{thing} is allocated whole and shared, to {display_name(container)} and {other}")
        if call is not None and (lost := before - held):
            self.violated("S2", f"{display_name(container)} loses {', '.join(sorted(lost))}: {call}")
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
