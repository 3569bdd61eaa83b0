"""S1, S2 and S3 over the whole history of a store, in plain JSON: what judges the allocator must not be part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.faults.history import History
from tests.faults.record import Record
from tests.faults.upstream import Json


def judge(history: History, record: Record, *, since: int = 0) -> None:
    """`since`: the revision from which on the store is judged; what came before was a person's doing."""
    guarded_writes(record)
    no_write_to_nodes(record)
    nothing_twice(history, since)
    nothing_taken_away(history, since)


def nothing_twice(history: History, since: int = 0) -> None:
    """S1: at no revision is a drive, a virtual drive or a port of a node committed to two live containers, or a disk both given
    away whole and shared."""
    for revision, state in history.states():
        if not revision.collection.endswith("/wekacontainers") or revision.version < since:
            continue
        holders: dict[str, str] = {}
        shared: set[str] = set()
        for place, item in state.items():
            if place[0] != revision.collection:
                continue
            for thing in committed(item):
                holder = holders.setdefault(thing, item["metadata"]["uid"])
                assert holder == item["metadata"]["uid"], f"S1: {thing} is given twice at {revision}"
            shared |= set(disks_shared(item))
        assert not shared & holders.keys(), f"S1: {shared & holders.keys()} given away whole and in parts at {revision}"


def committed(item: Json) -> Iterator[str]:
    """Everything that a container holds, one by one, with the node's name."""
    allocations, node = _allocations(item), _node(item)
    for serial in allocations.get("drives", ()):
        yield f"{node}: drive {serial}"
    for drive in allocations.get("virtualDrives", ()):
        yield f"{node}: virtual drive {drive['virtualUUID']}"
    if allocations.get("wekaPort"):
        for port in range(allocations["wekaPort"], allocations["wekaPort"] + _ports(item)):
            yield f"{node}: port {port}"
    if allocations.get("agentPort"):
        yield f"{node}: port {allocations['agentPort']}"


def disks_shared(item: Json) -> Iterator[str]:
    """The disks of which a container holds a part, named as whole ones are."""
    for drive in _allocations(item).get("virtualDrives", ()):
        yield f"{_node(item)}: drive {drive.get('serial', '')}"


def _allocations(item: Json) -> Json:
    found: Json = item.get("status", {}).get("allocations") or {}
    return found


def _node(item: Json) -> str:
    return str(item["spec"].get("nodeAffinity") or item.get("status", {}).get("nodeAffinity", ""))


def _ports(item: Json) -> int:
    for condition in item.get("status", {}).get("conditions", ()):
        if condition["type"] == "Allocated" and (found := re.search(r"ports (\d+)-(\d+)", condition["message"])):
            return int(found[2]) - int(found[1]) + 1
    return 100


def nothing_taken_away(history: History, since: int = 0) -> None:
    """S2: what is committed stays, for as long as its container lives; people may do otherwise, and such a test says so."""
    had: dict[str, Json] = {}
    for revision in history.revisions():
        if (
            not revision.collection.endswith("/wekacontainers")
            or revision.change == "DELETED"
            or revision.version < since
        ):
            continue
        now = revision.object.get("status", {}).get("allocations") or {}
        before = had.get(revision.uid, {})
        drives = {*before.get("drives", ())} - {*now.get("drives", ())}
        assert not drives, f"S2: {drives} were taken away at {revision}"
        for field in ("wekaPort", "agentPort"):
            assert not before.get(field) or now.get(field) == before[field], f"S2: {field} was changed at {revision}"
        had[revision.uid] = now


def guarded_writes(record: Record) -> None:
    """S3: what changes a container insists on which one it is, and how it was."""
    for exchange in record.of(lambda call: call.verb == "patch" and call.resource == "wekacontainers"):
        assert exchange.call.subresource == "status", f"not the status: {exchange}"
        assert exchange.call.required_uid, f"no UID: {exchange}"
        assert exchange.call.required_version, f"no resourceVersion: {exchange}"


def no_write_to_nodes(record: Record) -> None:
    """Node annotations are read, and never written."""
    assert record.of(lambda call: call.writes and call.resource == "nodes") == []
