"""What is wrong with a node or a container, in words for the one who can mend it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.allocation import conditions
from plimsoll.controllers.allocation.conditions import marker_of
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.spec import Ask, InvalidSpecError, read_ask, takes_part
from plimsoll.controllers.allocation.types import WekaContainer, condition_of
from plimsoll.controllers.allocation.usage import Ledger, holdings_on
from plimsoll.runtime.decision import Event, Patch, Problem, Reason, Ref

LOST = "AllocationLost"
WAITING = "Waiting"  # said only where something else was said before


class Trouble(Struct, frozen=True):
    """Why a container is not served, and not for want of drives."""

    container: WekaContainer
    code: str
    message: str


def container_trouble(
    container: WekaContainer, node: str, *, node_exists: bool, invalid_inventory: str, ports_per_container: int
) -> Trouble | None:
    """What keeps this container from being served whatever is free on the node."""
    if container.home != node or container.terminating or not takes_part(container):
        return None
    try:
        ask = read_ask(container, ports_per_container)
    except InvalidSpecError as error:
        return Trouble(container, "InvalidSpec", f"{error}. Nothing is allocated until this is mended.")
    marker = marker_of(container)
    if marker is not None and marker.node != node:
        message = (
            f"nodeAffinity is {node}, but what it holds is on node {marker.node}; set nodeAffinity back to {marker.node}, or "
            "delete the container and create it anew"
        )
        return Trouble(container, "NodeChanged", message)
    if ask.nothing:
        return None
    if not node_exists:
        return Trouble(container, "NodeNotFound", f"nodeAffinity is {node}; there is no such node")
    return _without_inventory(container, ask, invalid_inventory)


def _without_inventory(container: WekaContainer, ask: Ask, invalid_inventory: str) -> Trouble | None:
    if invalid_inventory and (ask.drives or ask.pieces_gib):
        message = f"{invalid_inventory}. No drives are allocated until this is mended."
        return Trouble(container, "InvalidInventory", message)
    return None


def lost_trouble(container: WekaContainer, node: str) -> Trouble:
    message = (
        f"its pod runs on node {node}, but its status holds no allocation: it was lost in a restore or overwritten. Nothing is "
        f"allocated on node {node} until it is known what this container uses. Find out, then run: plimsoll allocation restore "
        f"{container.namespace}/{container.name} --drives SERIAL,… --weka-port N --agent-port N; or delete the container"
    )
    return Trouble(container, LOST, message)


def held_up(waiting: Iterable[WekaContainer], missing: Iterable[WekaContainer], node: str) -> Iterator[Event]:
    """Tell those who wait whom they wait for, once it is certain that its status is lost."""
    known = [
        one for one in missing if (said := condition_of(one, conditions.ALLOCATED)) is not None and said.reason == LOST
    ]
    for one in waiting if known else ():
        names = ", ".join(other.title for other in known)
        message = (
            f"nothing is allocated on node {node} until it is known what {names} holds: see its condition Allocated"
        )
        yield Event(Ref.to(WEKA_CONTAINERS, one), "AllocationHeldUp", message[:1024], "Warning")


def condition_patch(container: WekaContainer, trouble: Trouble | None, now: datetime) -> Patch | None:
    """Say on the container what is wrong, or take it back; nothing where the condition already says so."""
    said = condition_of(container, conditions.ALLOCATED)
    if container.allocated and (trouble is None or trouble.code != LOST):
        return None  # `Allocated` stays true; an event tells the rest
    target = Ref.to(WEKA_CONTAINERS, container)
    if trouble is not None:
        if said is not None and (said.status, said.reason, said.message) == ("False", trouble.code, trouble.message):
            return None
        body = conditions.refused(container, trouble.code, trouble.message, now)
        # That a status is lost is told by the write that could only succeed because it is: a view may lag behind its pods.
        told = Event(target, trouble.code, trouble.message[:1024], "Warning") if trouble.code == LOST else None
        return Patch(target, body, Reason(trouble.code, trouble.message), subresource="status", event=told)
    if said is None or said.status != "False" or said.reason == WAITING:
        return None
    message = f"waits for its turn on node {container.home}"
    return Patch(
        target, conditions.refused(container, WAITING, message, now), Reason(WAITING, message), subresource="status"
    )


def problem(trouble: Trouble) -> Problem:
    target = Ref.to(WEKA_CONTAINERS, trouble.container)
    return Problem(target, trouble.code, f"WekaContainer {trouble.container.title}: {trouble.message}"[:1024])


def holding_problems(
    node: str, containers: Iterable[WekaContainer], inventory: Inventory | None, ledger: Ledger
) -> Iterator[Problem]:
    """Drives that were blocked after they were given away, and what two containers have: told, never mended by us."""
    conflicts = tuple(ledger.conflicts())
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
