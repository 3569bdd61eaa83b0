"""Read and write the two conditions of a WekaContainer: `AllocationProposed`, and `Allocated`, the marker of a committed one.

They are conditions and not status fields because a CRD that others installed prunes fields it does not know, and because the
storage operator starts to act as soon as `status.allocations` is set.
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
UNREADABLE = "?"  # the epoch of a proposal whose message does not parse
LONGEST_MESSAGE = 32_768  # characters; the API's limit for a condition message
# The size of a port range without our marker: assume the largest.
UNMARKED_PORTS = 100


class Proposal(Struct, frozen=True, omit_defaults=True):
    """What a session adds to a container. It counts as taken on the node until it is committed or cleared."""

    node: str
    epoch: str  # of its session: the resourceVersion of the write that acquired the lease
    drives: tuple[str, ...] = ()
    virtual_drives: tuple[VirtualDrive, ...] = ()
    weka_port: int = 0
    ports: int = 0  # size of the range that starts at weka_port
    agent_port: int = 0
    failure_domain: str = ""

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Marker(Struct, frozen=True):
    """What `status.allocations` leaves out: the node of the drives and the size of the port range."""

    node: str
    ports: int  # size of the range that starts at wekaPort; 0 without a range


# Conditions of the storage operator that are True only after its container had an allocation.
THEIR_ALLOCATED = ("ResourcesAllocated", "ResourcesWritten")
LOST = "AllocationLost"

_PORTS = re.compile(r"\bports (\d+)-(\d+)\b")


def proposal_of(container: WekaContainer) -> Proposal | None:
    condition = condition_of(container, PROPOSED)
    if condition is None or condition.status != "True":
        return None
    try:
        return msgspec.json.decode(condition.message, type=Proposal)
    except msgspec.DecodeError:
        return Proposal(container.node_name, UNREADABLE)


def marker_of(container: WekaContainer) -> Marker | None:
    """Our marker; None if nothing is allocated or somebody else allocated it."""
    condition = condition_of(container, ALLOCATED)
    if condition is None or condition.status != "True" or condition.reason != OURS or not container.allocated:
        return None
    found = re.match(r"node (\S+): ", condition.message)
    if found is None:
        return None
    ports = _PORTS.search(condition.message)
    return Marker(found[1], int(ports[2]) - int(ports[1]) + 1 if ports else 0)


def had_allocation(container: WekaContainer) -> bool:
    """Whether the status shows that the container had an allocation earlier, whoever wrote it.

    A pod without an allocation is no evidence: the storage operator starts the pod before it allocates.
    """
    status, ours = container.status, condition_of(container, ALLOCATED)
    if status.container_id is not None or status.added_drives:
        return True
    if ours is not None and ours.reason in (OURS, LOST):
        return True
    return any((one := condition_of(container, kind)) is not None and one.status == "True" for kind in THEIR_ALLOCATED)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def propose_patch(container: WekaContainer, proposal: Proposal, now: datetime) -> dict[str, Any]:
    """The status patch that adds the proposal and leaves `status.allocations` alone."""
    return _status(container, {}, _with(container, PROPOSED, "True", reason="Proposed", message=proposal.text, now=now))


def clear_patch(container: WekaContainer) -> dict[str, Any]:
    """The status patch that removes the proposal."""
    return _status(container, {}, without(container.conditions, PROPOSED))


def ports_held(container: WekaContainer) -> int:
    """Size of the container's port range; 0 without one."""
    marker = marker_of(container)
    if not container.allocations.weka_port:
        return 0
    return marker.ports if marker is not None and marker.ports else UNMARKED_PORTS


def marker_after(container: WekaContainer, proposal: Proposal) -> str:
    """The marker message once the proposal is committed."""
    total = with_proposal(container.allocations, proposal)
    return marker_message(proposal.node, total, proposal.ports or ports_held(container), proposal.epoch)


def commit_patch(container: WekaContainer, proposal: Proposal, now: datetime) -> dict[str, Any]:
    """The status patch that commits a proposal: set allocations and marker, remove the proposal, in one write."""
    total = with_proposal(container.allocations, proposal)
    message = marker_after(container, proposal)
    conditions = _with(container, ALLOCATED, "True", reason=OURS, message=message, now=now)
    return _status(container, {"allocations": builtins(total)}, without(conditions, PROPOSED))


def not_allocated_patch(container: WekaContainer, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The status patch that sets `Allocated` to False and says why."""
    return _status(
        container, {}, _with(container, ALLOCATED, "False", reason=reason, message=message[:LONGEST_MESSAGE], now=now)
    )


def marker_message(node: str, allocations: Allocations, ports: int, epoch: str) -> str:
    """The marker message. `marker_of` parses the node and the port range out of it."""
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


def with_proposal(had: Allocations, proposal: Proposal) -> Allocations:
    """The allocations after the commit. A proposal only adds."""
    return Allocations(
        drives=(*(had.drives or ()), *proposal.drives) or None,
        virtual_drives_as_written=(*(had.virtual_drives_as_written or ()), *map(_written, proposal.virtual_drives))
        or None,
        weka_port=had.weka_port or proposal.weka_port,
        agent_port=had.agent_port or proposal.agent_port,
        failure_domain=had.failure_domain or proposal.failure_domain or None,
    )


def _written(drive: VirtualDrive) -> dict[str, Any]:
    """Every field, also empty ones: the CRD of the storage operator may require them."""
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
    # The patch replaces the list of conditions; its resourceVersion precondition protects the conditions of others.
    # The storage operator's CRD requires `status.status`, which is absent from a container it has not reconciled yet.
    known = {} if container.status.status is not None else {"status": ""}
    return {"status": {**known, **fields, "conditions": list(conditions)}}
