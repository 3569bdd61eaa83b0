"""What we write beside `status.allocations`, in conditions: a proposal while it is one, and our marker once it is committed.

Conditions, because a CRD that others installed silently drops status fields that it does not know, and because others start
to act as soon as `status.allocations` is there.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from plimsoll.controllers.allocation.types import Allocations, AsWritten, VirtualDrive, WekaContainer, condition_of
from plimsoll.kube.codec import builtins

PROPOSED = "AllocationProposed"
ALLOCATED = "Allocated"
OURS = "AllocatedByPlimsoll"  # the reason of the marker
UNREADABLE = "?"  # the epoch of a proposal that someone edited until it could not be read
LONGEST_MESSAGE = 32_768  # what the API allows in a condition
# What a range is taken to be where nobody wrote down how long it is: the longest there is.
UNMARKED_PORTS = 100


class Proposal(Struct, frozen=True, omit_defaults=True):
    """What a container is to get in addition to what it has. Others count it as taken; nobody may use it yet."""

    node: str
    epoch: str  # the tenure in which it was made: the resourceVersion of the write that took the lease
    drives: tuple[str, ...] = ()
    virtual_drives: tuple[VirtualDrive, ...] = ()
    weka_port: int = 0
    ports: int = 0  # how many, from weka_port on
    agent_port: int = 0

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Marker(Struct, frozen=True):
    """What `status.allocations` does not say of itself: whose drives they are, and how many ports."""

    node: str
    ports: int  # from wekaPort on; 0 where it has none


_PORTS = re.compile(r"\bports (\d+)-(\d+)\b")


def proposal_of(container: WekaContainer) -> Proposal | None:
    condition = condition_of(container, PROPOSED)
    if condition is None or condition.status != "True":
        return None
    try:
        return msgspec.json.decode(condition.message, type=Proposal)
    except msgspec.DecodeError:
        return Proposal(container.home, UNREADABLE)


def marker_of(container: WekaContainer) -> Marker | None:
    """Our marker, or None where nothing is allocated or others have allocated it."""
    condition = condition_of(container, ALLOCATED)
    if condition is None or condition.status != "True" or condition.reason != OURS or not container.allocated:
        return None
    found = re.match(r"node (\S+): ", condition.message)
    if found is None:
        return None
    ports = _PORTS.search(condition.message)
    return Marker(found[1], int(ports[2]) - int(ports[1]) + 1 if ports else 0)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def proposed(container: WekaContainer, proposal: Proposal, now: datetime) -> dict[str, Any]:
    """The patch that proposes, and does nothing else."""
    return _status(container, {}, _with(container, PROPOSED, "True", reason="Proposed", message=proposal.text, now=now))


def cleared(container: WekaContainer) -> dict[str, Any]:
    """The patch that takes a proposal back."""
    return _status(container, {}, without(container.conditions, PROPOSED))


def ports_held(container: WekaContainer) -> int:
    """How many ports from wekaPort on are the container's."""
    marker = marker_of(container)
    if not container.allocations.weka_port:
        return 0
    return marker.ports if marker is not None and marker.ports else UNMARKED_PORTS


def will_hold(container: WekaContainer, proposal: Proposal) -> str:
    """The marker of a container whose proposal is committed."""
    total = grown(container.allocations, proposal)
    return described(proposal.node, total, proposal.ports or ports_held(container), proposal.epoch)


def committed(container: WekaContainer, proposal: Proposal, now: datetime) -> dict[str, Any]:
    """The patch that makes a proposal true: allocations, marker, and the proposal gone, in one write."""
    total = grown(container.allocations, proposal)
    message = will_hold(container, proposal)
    conditions = _with(container, ALLOCATED, "True", reason=OURS, message=message, now=now)
    return _status(container, {"allocations": builtins(total)}, without(conditions, PROPOSED))


def refused(container: WekaContainer, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The patch that says on the container why it has nothing."""
    return _status(
        container, {}, _with(container, ALLOCATED, "False", reason=reason, message=message[:LONGEST_MESSAGE], now=now)
    )


def described(node: str, allocations: Allocations, ports: int, epoch: str) -> str:
    """The marker's text: for people, and for us to find the node and the number of ports in."""
    parts = []
    if allocations.drives:
        parts.append(f"{len(allocations.drives)} drives")
    if allocations.virtual_drives:
        capacity = sum(drive.capacity_gib for drive in allocations.virtual_drives)
        parts.append(f"{len(allocations.virtual_drives)} virtual drives of {capacity} GiB together")
    if allocations.weka_port:
        parts.append(f"ports {allocations.weka_port}-{allocations.weka_port + max(ports, 1) - 1}")
    if allocations.agent_port:
        parts.append(f"agent port {allocations.agent_port}")
    return f"node {node}: {', '.join(parts)} (epoch {epoch})"


def grown(had: Allocations, proposal: Proposal) -> Allocations:
    """What a container has once the proposal is committed: only ever more."""
    return Allocations(
        drives=(*(had.drives or ()), *proposal.drives) or None,
        virtual_drives_as_written=(*(had.virtual_drives_as_written or ()), *map(_written, proposal.virtual_drives))
        or None,
        weka_port=had.weka_port or proposal.weka_port,
        agent_port=had.agent_port or proposal.agent_port,
    )


def _written(drive: VirtualDrive) -> dict[str, Any]:
    """All fields, also empty ones: those who own the kind may insist on them."""
    return {
        "virtualUUID": drive.virtual_uuid,
        "physicalUUID": drive.physical_uuid,
        "capacityGiB": drive.capacity_gib,
        "serial": drive.serial,
        "type": drive.type,
    }


def without(conditions: tuple[AsWritten, ...], kind: str) -> tuple[AsWritten, ...]:
    return tuple(condition for condition in conditions if condition.get("type") != kind)


def _with(
    container: WekaContainer, kind: str, status: str, *, reason: str, message: str, now: datetime
) -> tuple[AsWritten, ...]:
    had = condition_of(container, kind)
    made = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": had.since if had and had.status == status and had.since else _stamp(now),
        "observedGeneration": container.metadata.generation,
    }
    if had is None:
        return (*container.conditions, made)
    return tuple(made if condition.get("type") == kind else condition for condition in container.conditions)


def _stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(container: WekaContainer, fields: dict[str, Any], conditions: tuple[AsWritten, ...]) -> dict[str, Any]:
    # The resourceVersion that goes along says that the others' conditions are as they were. `status.status` is required by
    # the CRD of those who own the kind, and absent from a container they never saw.
    known = {} if container.status.status is not None else {"status": ""}
    return {"status": {**known, **fields, "conditions": list(conditions)}}
