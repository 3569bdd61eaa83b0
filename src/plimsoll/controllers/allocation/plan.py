"""Decide from one live list which container gets what. Deterministic, no I/O; `protocol.py` carries the plan out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from plimsoll.controllers.allocation.conditions import LONGEST_MESSAGE, Proposal, had_allocation, marker_of
from plimsoll.controllers.allocation.drives import choose_capacity, choose_drives
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.ports import choose_ports
from plimsoll.controllers.allocation.shortage import Shortage
from plimsoll.controllers.allocation.spec import (
    InvalidSpecError,
    ResourceRequest,
    awaits_cluster_ports,
    failure_domain,
    is_allocatable,
    read_request,
)
from plimsoll.controllers.allocation.types import Clusters, VirtualDrive, WekaContainer, ports_of_cluster
from plimsoll.controllers.allocation.usage import NodeUsage, proposed_holding


class Assignment(Struct, frozen=True):
    container: WekaContainer
    proposal: Proposal


class Unserved(Struct, frozen=True):
    """A container that could not be served, and what was taken then: it is retried once some of that is freed."""

    container: WekaContainer
    shortage: Shortage
    taken: frozenset[str]


class RestoreRequest(Struct, frozen=True):
    """What an administrator says a container holds whose status was lost."""

    uid: str
    drives: tuple[str, ...] = ()
    virtual_drives: tuple[VirtualDrive, ...] = ()
    weka_port: int = 0
    ports: int = 0
    agent_port: int = 0


class Plan(Struct, frozen=True):
    assignments: tuple[Assignment, ...] = ()
    unserved: tuple[Unserved, ...] = ()


def open_request(
    container: WekaContainer, node: str, ports_per_container: int, clusters: Clusters = ()
) -> ResourceRequest | None:
    """What the container still needs on this node; None if it is elsewhere, terminating, complete or invalid."""
    if container.node_name != node or container.terminating:
        return None
    marker = marker_of(container)
    if marker is not None and marker.node != node:
        return None  # its allocation is on another node: that is reported, and nothing is added
    cluster = ports_of_cluster(container, clusters)
    if awaits_cluster_ports(container, cluster):
        return None
    try:
        request = read_request(container, ports_per_container, cluster)
    except InvalidSpecError:
        return None
    return None if request.nothing else request


def lost_containers(
    containers: Iterable[WekaContainer], node: str, running: Iterable[str], recorded: frozenset[str] = frozenset()
) -> tuple[WekaContainer, ...]:
    """Containers that run there and lost their allocation: what they use is unknown, so nothing may be allocated.

    recorded: UIDs of containers that are known to have had an allocation, beside those whose status still shows it.
    """
    uids = set(running)
    return tuple(
        one
        for one in containers
        if one.uid in uids
        and not one.allocated
        and is_allocatable(one)
        and one.node_name in (node, "")
        and (one.uid in recorded or had_allocation(one))
    )


def make_plan(
    node: str,
    inventory: Inventory | None,
    containers: Sequence[WekaContainer],
    *,
    epoch: str,
    turn: Sequence[str],
    held_back: frozenset[str],
    ports_per_container: int,
    labels: Mapping[str, str] | None = None,
    clusters: Clusters = (),
) -> Plan:
    """Serve the waiting containers in the order of `turn`. Without an inventory (it is invalid) only ports are allocated."""
    usage = NodeUsage(node, inventory or Inventory(), containers, clusters)
    place = {uid: number for number, uid in enumerate(turn)}
    waiting = sorted(
        (c for c in containers if c.uid not in held_back),
        key=lambda c: (place.get(c.uid, len(place)), str(c.metadata.creation_timestamp), c.title),
    )
    assignments: list[Assignment] = []
    unserved: list[Unserved] = []
    for container in waiting:
        request = open_request(container, node, ports_per_container, clusters)
        if request is None or (inventory is None and (request.drives or request.capacity)):
            continue
        outcome = _serve(container, request, usage, epoch, labels or {})
        if isinstance(outcome, Shortage):
            unserved.append(Unserved(container, outcome, usage.tokens()))
        else:
            usage.enter(proposed_holding(container, outcome))
            assignments.append(Assignment(container, outcome))
    return Plan(tuple(assignments), tuple(unserved))


def _serve(
    container: WekaContainer, request: ResourceRequest, usage: NodeUsage, epoch: str, labels: Mapping[str, str]
) -> Proposal | Shortage:
    drives = choose_drives(request.drives, usage) if request.drives else ()
    if isinstance(drives, Shortage):
        return drives
    held = container.allocations.virtual_drives
    pieces = choose_capacity(request.capacity, usage, owner_uid=container.uid, held=held)
    if isinstance(pieces, Shortage):
        return pieces
    ports = choose_ports(request, usage, cluster=container.cluster)
    if isinstance(ports, Shortage):
        return ports
    domain = "" if container.allocations.failure_domain else failure_domain(container.spec.failure_domain, labels)
    made = Proposal(usage.node, epoch, drives, pieces, ports.first, ports.count, ports.agent, domain)
    if len(made.text) > LONGEST_MESSAGE:
        return Shortage(
            "InsufficientDriveCapacity",
            f"{len(pieces)} virtual drives do not fit into one condition; request fewer, larger ones",
        )
    return made


def restore_plan(
    node: str, inventory: Inventory | None, containers: Sequence[WekaContainer], restore: RestoreRequest, *, epoch: str
) -> Plan:
    """Restore the allocation of a container unless another container holds a part of it."""
    container = next((one for one in containers if one.uid == restore.uid), None)
    if container is None:
        return Plan()
    usage = NodeUsage(node, inventory or Inventory(), containers)
    proposal = Proposal(
        node, epoch, restore.drives, restore.virtual_drives, restore.weka_port, restore.ports, restore.agent_port
    )
    if container.allocated:
        return _not_restored(container, usage, "its status already holds an allocation, which is not overwritten")
    usage.enter(proposed_holding(container, proposal))
    if clashes := [one.message for one in usage.conflicts() if container.title in one.holders]:
        return _not_restored(container, usage, f"on node {node} {'; '.join(clashes)}")
    return Plan((Assignment(container, proposal),))


def _not_restored(container: WekaContainer, usage: NodeUsage, why: str) -> Plan:
    return Plan(unserved=(Unserved(container, Shortage("AllocationNotRestored", why), usage.tokens()),))
