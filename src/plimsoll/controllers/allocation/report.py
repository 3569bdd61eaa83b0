"""Problems of a container or node as conditions, events and `Problem`s that say how to fix them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.allocation import conditions
from plimsoll.controllers.allocation.conditions import LOST, marker_of
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.spec import (
    InvalidSpecError,
    ResourceRequest,
    awaits_cluster_ports,
    is_allocatable,
    read_request,
)
from plimsoll.controllers.allocation.types import Clusters, WekaContainer, condition_of, ports_of_cluster
from plimsoll.controllers.allocation.usage import NodeUsage, holdings_on
from plimsoll.runtime.decision import Blocker, Event, Patch, Problem, Reason, Ref

NO_CLUSTER_PORTS = "NoClusterPorts"
NO_NODE = "NoNode"
# Why a container waits although nothing is wrong with it. The reason stays until it is served or another reason applies.
TRANSIENT = (
    "InsufficientDrives",
    "InsufficientDriveCapacity",
    "PortAllocationFailed",
    "LeaseHeld",
    "NoLeaseNamespace",
    NO_NODE,
)
WAITING = "Waiting"  # written only to replace an earlier reason


class ContainerProblem(Struct, frozen=True):
    """Why a container is not served, other than a shortage."""

    container: WekaContainer
    code: str
    message: str
    expected: bool = False  # a normal state that passes by itself: a condition says it, no event does


def container_problem(
    container: WekaContainer,
    node: str,
    *,
    node_exists: bool,
    invalid_inventory: str,
    ports_per_container: int,
    clusters: Clusters = (),
) -> ContainerProblem | None:
    """Why this container cannot be served, regardless of what is free; None if it can."""
    if container.node_name != node or container.terminating or not is_allocatable(container):
        return None
    cluster = ports_of_cluster(container, clusters)
    try:
        request = read_request(container, ports_per_container, cluster)
    except InvalidSpecError as error:
        return ContainerProblem(container, "InvalidSpec", f"{error}. Nothing is allocated until this is fixed.")
    marker = marker_of(container)
    if marker is not None and marker.node != node:
        message = (
            f"nodeAffinity is {node}, but its allocation is on node {marker.node}; set nodeAffinity back to {marker.node}, or "
            "delete and recreate the container"
        )
        return ContainerProblem(container, "NodeChanged", message)
    if request.nothing:
        return None
    if not node_exists:
        return ContainerProblem(container, "NodeNotFound", f"nodeAffinity is {node}; there is no such node")
    if awaits_cluster_ports(container, cluster):
        message = (
            "its WekaCluster has no status.ports.basePort yet; the storage operator sets it when it forms the cluster"
        )
        return ContainerProblem(container, NO_CLUSTER_PORTS, message, expected=True)
    return _without_inventory(container, request, invalid_inventory)


def _without_inventory(
    container: WekaContainer, request: ResourceRequest, invalid_inventory: str
) -> ContainerProblem | None:
    if invalid_inventory and (request.drives or request.capacity):
        message = f"{invalid_inventory}. No drives are allocated until this is fixed."
        return ContainerProblem(container, "InvalidInventory", message)
    return None


def lost_problem(container: WekaContainer, node: str) -> ContainerProblem:
    message = (
        f"its pod runs on node {node} and it had an allocation, which its status no longer shows: it was lost in a restore or "
        f"overwritten. Nothing is allocated on node {node} until it is known what this container uses. Find out, then run: "
        f"plimsoll allocation restore {container.namespace}/{container.name} --drives SERIAL,… --weka-port N --agent-port N; "
        "or delete the container"
    )
    return ContainerProblem(container, LOST, message)


def held_up_events(waiting: Iterable[WekaContainer], missing: Iterable[WekaContainer], node: str) -> Iterator[Event]:
    """An event on each waiting container that names the lost one, once the lost condition is written."""
    known = [
        one for one in missing if (said := condition_of(one, conditions.ALLOCATED)) is not None and said.reason == LOST
    ]
    for one in waiting if known else ():
        names = ", ".join(other.title for other in known)
        message = (
            f"nothing is allocated on node {node} until it is known what {names} holds: see its condition Allocated"
        )
        yield Event(Ref.to(WEKA_CONTAINERS, one), "AllocationHeldUp", message[:1024], "Warning")


def condition_patch(container: WekaContainer, problem: ContainerProblem | None, now: datetime) -> Patch | None:
    """Set or replace the `Allocated` condition; None if it is up to date."""
    said = condition_of(container, conditions.ALLOCATED)
    if container.allocated and (problem is None or problem.code != LOST):
        return None  # `Allocated` stays True; an event reports the problem
    target = Ref.to(WEKA_CONTAINERS, container)
    if problem is not None:
        if said is not None and (said.status, said.reason, said.message) == ("False", problem.code, problem.message):
            return None
        body = conditions.not_allocated_patch(container, problem.code, problem.message, now)
        # Attach the event to this write: it succeeds only if the status is still empty, while the cache may be behind.
        event = Event(target, problem.code, problem.message[:1024], "Warning") if problem.code == LOST else None
        return Patch(target, body, Reason(problem.code, problem.message), subresource="status", event=event)
    if said is None or said.status != "False" or said.reason in (WAITING, *TRANSIENT):
        return None
    message = f"waiting to be served on node {container.node_name}"
    return Patch(
        target,
        conditions.not_allocated_patch(container, WAITING, message, now),
        Reason(WAITING, message),
        subresource="status",
    )


def as_problem(problem: ContainerProblem) -> Problem:
    target = Ref.to(WEKA_CONTAINERS, problem.container)
    return Problem(target, problem.code, f"WekaContainer {problem.container.title}: {problem.message}"[:1024])


def holding_problems(
    node: str, containers: Iterable[WekaContainer], inventory: Inventory | None, usage: NodeUsage
) -> Iterator[Problem]:
    """Report allocated drives that are blocked now, and conflicts. Plimsoll never takes an allocation away."""
    conflicts = tuple(usage.conflicts())
    for container in containers:
        target = Ref.to(WEKA_CONTAINERS, container)
        held = [one for one in holdings_on(node, container) if one.committed]
        serials = {serial for one in held for serial in one.drives}
        serials |= {drive.serial for one in held for drive in one.virtual_drives}
        if inventory is not None and (blocked := sorted(serials & inventory.blocked)):
            message = (
                f"WekaContainer {container.title} holds drives that are blocked on node {node}: {', '.join(blocked)}. It keeps "
                "them: replace the drive, or recreate the container to get others"
            )
            yield Problem(target, "AllocatedDriveBlocked", message[:1024])
        if mine := [one.message for one in conflicts if container.title in one.holders]:
            message = f"on node {node} {'; '.join(mine)}. Nothing is taken away: delete one of the containers"
            yield Problem(target, "AllocationConflict", message[:1024])


def waiting_problem(container: WekaContainer, code: str, message: str) -> ContainerProblem:
    """Why a container that could be served still waits."""
    return ContainerProblem(container, code, message, expected=True)


def no_node_problem(container: WekaContainer) -> ContainerProblem:
    message = (
        "neither spec.nodeAffinity nor status.nodeAffinity is set; the storage operator sets the latter once the pod of the "
        "container is scheduled: check that pod"
    )
    return ContainerProblem(container, NO_NODE, message, expected=True)


def waiting_reason(container: WekaContainer) -> Blocker | None:
    """Why a container has no allocation, as its own condition says; None if it has one or nobody said anything yet."""
    said = condition_of(container, conditions.ALLOCATED)
    if container.allocated or said is None or said.status != "False":
        return None
    return Blocker(said.reason, f"{said.message} (since {said.since})" if said.since else said.message)
