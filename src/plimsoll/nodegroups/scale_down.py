"""Which nodes go now: empty ones together, others one at a time; and why the rest stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from plimsoll.decision import Blocker
from plimsoll.kube.resources import NODES, PODS
from plimsoll.kube.types import Pod
from plimsoll.nodegroups.checks.all_of_them import BEFORE_CHOOSING, LAST, first_blocker
from plimsoll.nodegroups.seen import GroupSeen, Seen
from plimsoll.nodegroups.settings import NodeGroupSettings
from plimsoll.nodegroups.situation import Candidate, Check, Chosen, Situation
from plimsoll.nodegroups.types import VPSIE_NODES
from plimsoll.nodegroups.unready import halt
from plimsoll.scheduling.model import Removal
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.removable import removable
from plimsoll.scheduling.snapshot import Snapshot


class Stays(Struct, frozen=True):
    """A node that might have gone, and what keeps it."""

    candidate: Candidate
    blocker: Blocker


class ScaleDown(Struct, frozen=True):
    going: tuple[Candidate, ...] = ()
    staying: tuple[Stays, ...] = ()
    halted: Blocker | None = None  # nothing at all is removed


def choose(
    asked: Sequence[Candidate],
    groups: Sequence[GroupSeen],
    seen: Seen,
    snapshot: Snapshot,
    further_checks: tuple[Check, ...] = (),
) -> ScaleDown:
    """`asked`: those that might go, in the order in which they are asked."""
    halted = halt(seen)
    if halted is not None or not asked:
        return ScaleDown(halted=halted if asked else None)
    settings = seen.settings
    draining = sum(1 for one in seen.view[VPSIE_NODES] if one.phase == "Terminating" and not one.terminating)
    chosen = Chosen()
    staying: list[Stays] = []
    able: list[Candidate] = []
    for candidate in asked:
        situation = Situation(seen, groups, chosen)
        blocker = first_blocker((*BEFORE_CHOOSING, *further_checks), candidate, situation)
        if blocker is not None:
            staying.append(Stays(candidate, blocker))
        else:
            able.append(candidate)
    removals = {answer.node: answer for answer in _removals(able, groups, seen, snapshot)}
    going: list[Candidate] = []
    empty = 0
    for candidate in able:
        situation = Situation(seen, groups, chosen, removals)
        # Asked again: those chosen before it in this very decision count.
        blocker = first_blocker(BEFORE_CHOOSING, candidate, situation) or LAST(candidate, situation)
        if blocker is None:
            blocker = _too_many(candidate, settings, empty=empty, draining=draining)
        if blocker is not None:
            staying.append(Stays(candidate, blocker))
            continue
        going.append(candidate)
        chosen.add(candidate)
        if candidate.pods:
            draining += 1
        else:
            empty += 1
    return ScaleDown(tuple(going), tuple(staying))


def all_blockers(
    candidate: Candidate,
    groups: Sequence[GroupSeen],
    seen: Seen,
    snapshot: Snapshot,
    further_checks: tuple[Check, ...] = (),
) -> tuple[Blocker, ...]:
    """What every check says, also those that would not be asked any more."""
    removals = {answer.node: answer for answer in _removals([candidate], groups, seen, snapshot)}
    situation = Situation(seen, groups, removals=removals)
    found = [check(candidate, situation) for check in (*BEFORE_CHOOSING, *further_checks, LAST)]
    return tuple(blocker for blocker in (halt(seen), *found) if blocker is not None)


def _too_many(candidate: Candidate, settings: NodeGroupSettings, *, empty: int, draining: int) -> Blocker | None:
    if candidate.pods and draining >= settings.max_parallel_drains:
        return Blocker(
            "AnotherDraining", f"{draining} nodes are being drained, the limit is {settings.max_parallel_drains}"
        )
    if not candidate.pods and empty >= settings.max_empty_removals:
        return Blocker("AnotherRemoved", f"{empty} empty nodes go now, the limit is {settings.max_empty_removals}")
    return None


def _removals(able: Sequence[Candidate], groups: Iterable[GroupSeen], seen: Seen, snapshot: Snapshot) -> list[Removal]:
    if not able:
        return []
    with snapshot.trial():
        settle_the_others(snapshot, groups, seen)
        return removable(snapshot, [candidate.name for candidate in able])


def settle_the_others(snapshot: Snapshot, groups: Iterable[GroupSeen], seen: Seen) -> None:
    """Inside a trial: nodes that go or are not ready take nobody, and pods that wait take their places before any other."""
    for group in groups:
        for member in group.members:
            if member.leaving:
                snapshot.remove_node(member.node_name)
    for node in seen.view[NODES]:
        if not node.ready:
            snapshot.remove_node(node.name)
    waiting = {pod.uid: pod for pod in seen.view[PODS] if _waits(pod)}
    if waiting:
        for uid, name in pack(snapshot, waiting.values()).placements.items():
            snapshot.add(waiting[uid], name)


def _waits(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates)
