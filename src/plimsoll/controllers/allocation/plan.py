"""Who gets what, from one live list: the whole of the decision that a tenure carries out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from plimsoll.controllers.allocation.conditions import LONGEST_MESSAGE, Proposal, marker_of
from plimsoll.controllers.allocation.drives import choose_drives, choose_pieces
from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.ports import choose_ports
from plimsoll.controllers.allocation.shortage import Shortage
from plimsoll.controllers.allocation.spec import Ask, InvalidSpecError, read_ask, takes_part
from plimsoll.controllers.allocation.types import VirtualDrive, WekaContainer
from plimsoll.controllers.allocation.usage import Ledger, proposed_holding


class Assignment(Struct, frozen=True):
    container: WekaContainer
    proposal: Proposal


class Refusal(Struct, frozen=True):
    """A container that could not be served, and what was taken at that moment: once some of it is free, it may ask again."""

    container: WekaContainer
    shortage: Shortage
    taken: frozenset[str]


class Given(Struct, frozen=True):
    """What an administrator says a container holds, whose status no longer does."""

    uid: str
    drives: tuple[str, ...] = ()
    virtual_drives: tuple[VirtualDrive, ...] = ()
    weka_port: int = 0
    ports: int = 0
    agent_port: int = 0


class Plan(Struct, frozen=True):
    assignments: tuple[Assignment, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def ask_of(container: WekaContainer, node: str, ports_per_container: int) -> Ask | None:
    """What the container needs on this node, or None: it is elsewhere, leaving, complete, or asks for what cannot be."""
    if container.home != node or container.terminating:
        return None
    marker = marker_of(container)
    if marker is not None and marker.node != node:
        return None  # what it has is on another node: it is reported, and nothing is added to that
    try:
        ask = read_ask(container, ports_per_container)
    except InvalidSpecError:
        return None
    return None if ask.nothing else ask


def lost(containers: Iterable[WekaContainer], node: str, running: Iterable[str]) -> tuple[WekaContainer, ...]:
    """Containers that run there with nothing in their status: nobody knows what they hold, so nothing may be given away."""
    uids = set(running)
    return tuple(c for c in containers if c.uid in uids and not c.allocated and takes_part(c) and c.home in (node, ""))


def make_plan(
    node: str,
    inventory: Inventory | None,
    containers: Sequence[WekaContainer],
    *,
    epoch: str,
    turn: Sequence[str],
    held_back: frozenset[str],
    ports_per_container: int,
) -> Plan:
    """Serve those that wait, in their turn. `inventory` None: it cannot be read, and only ports are given out."""
    ledger = Ledger(node, inventory or Inventory(), containers)
    place = {uid: number for number, uid in enumerate(turn)}
    waiting = sorted(
        (c for c in containers if c.uid not in held_back),
        key=lambda c: (place.get(c.uid, len(place)), str(c.metadata.creation_timestamp), c.title),
    )
    assignments: list[Assignment] = []
    refusals: list[Refusal] = []
    for container in waiting:
        ask = ask_of(container, node, ports_per_container)
        if ask is None or (inventory is None and (ask.drives or ask.pieces_gib)):
            continue
        outcome = _serve(container, ask, ledger, epoch)
        if isinstance(outcome, Shortage):
            refusals.append(Refusal(container, outcome, ledger.tokens()))
        else:
            ledger.enter(proposed_holding(container, outcome))
            assignments.append(Assignment(container, outcome))
    return Plan(tuple(assignments), tuple(refusals))


def _serve(container: WekaContainer, ask: Ask, ledger: Ledger, epoch: str) -> Proposal | Shortage:
    drives = choose_drives(ask.drives, ledger) if ask.drives else ()
    if isinstance(drives, Shortage):
        return drives
    already = len(container.allocations.virtual_drives)
    pieces = choose_pieces(ask.pieces_gib, ledger, owner_uid=container.uid, already=already) if ask.pieces_gib else ()
    if isinstance(pieces, Shortage):
        return pieces
    ports = choose_ports(ask, ledger, cluster=container.cluster)
    if isinstance(ports, Shortage):
        return ports
    made = Proposal(ledger.node, epoch, drives, pieces, ports.first, ports.count, ports.agent)
    if len(made.text) > LONGEST_MESSAGE:
        return Shortage(
            "InsufficientDriveCapacity",
            f"{len(pieces)} virtual drives do not fit into one condition; ask for fewer and larger ones",
        )
    return made


def restore_plan(
    node: str, inventory: Inventory | None, containers: Sequence[WekaContainer], given: Given, *, epoch: str
) -> Plan:
    """Give a container back what it is said to hold, unless another holds some of it."""
    container = next((one for one in containers if one.uid == given.uid), None)
    if container is None:
        return Plan()
    ledger = Ledger(node, inventory or Inventory(), containers)
    proposal = Proposal(node, epoch, given.drives, given.virtual_drives, given.weka_port, given.ports, given.agent_port)
    if container.allocated:
        return _not_restored(container, ledger, "its status already holds an allocation, which is not overwritten")
    ledger.enter(proposed_holding(container, proposal))
    if clashes := [one.message for one in ledger.conflicts() if container.title in one.holders]:
        return _not_restored(container, ledger, f"on node {node} {'; '.join(clashes)}")
    return Plan((Assignment(container, proposal),))


def _not_restored(container: WekaContainer, ledger: Ledger, why: str) -> Plan:
    return Plan(refusals=(Refusal(container, Shortage("AllocationNotRestored", why), ledger.tokens()),))
