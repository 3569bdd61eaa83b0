"""Which nodes go now: empty ones together, others one at a time; and why the rest stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.nodegroups.group_state import ZONE, GroupSeen, Seen
from plimsoll.controllers.nodegroups.plans import Shrinking
from plimsoll.controllers.nodegroups.scale_down.checks.group import recently_blocked
from plimsoll.controllers.nodegroups.scale_down.checks.pods import pods_expected
from plimsoll.controllers.nodegroups.scale_down.checks.registry import (
    BEFORE_CHOOSING,
    BEFORE_EVICTING,
    LAST,
    OF_THE_GROUP,
    first_blocker,
)
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Check, Chosen, Situation
from plimsoll.controllers.nodegroups.scale_down.unready import halt
from plimsoll.controllers.nodegroups.types import BY_PHASE, ON_THEIR_WAY_OUT, VPSIE_NODES
from plimsoll.kube.types.resources import NODES, NOT_READY, PODS, UNBOUND
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.model import Removal

Ask: TypeAlias = Callable[[Shrinking], Sequence[Removal] | None]

# So many nodes are looked at closely in one decision: each of their pods is asked after its owner and its budgets.
LOOKS = 50


class Stays(Struct, frozen=True):
    """A node that might have gone, and what keeps it."""

    candidate: Candidate
    blocker: Blocker


class ScaleDown(Struct, frozen=True):
    going: tuple[Candidate, ...] = ()
    staying: tuple[Stays, ...] = ()
    halted: Blocker | None = None  # nothing at all is removed
    more: bool = False  # others are to be looked at, soon


class Rounds:
    """Where more nodes might go than can be looked at in one decision, they take turns; what kept one holds until its next turn."""

    def __init__(self) -> None:
        self._kept: dict[str, Blocker] = {}  # by the Node's UID
        self._ended = True

    def begin(self) -> None:
        if self._ended:
            self._kept.clear()
        self._ended = True

    def known(self, candidate: Candidate) -> Blocker | None:
        return self._kept.get(candidate.node.metadata.uid)

    def enter(self, candidate: Candidate, blocker: Blocker) -> None:
        self._kept[candidate.node.metadata.uid] = blocker

    @property
    def open(self) -> bool:
        return not self._ended

    def goes_on(self) -> None:
        """Some were not looked at: what is known of the others holds in the next decision, too."""
        self._ended = False


def choose(
    asked: Iterable[Candidate],
    groups: Sequence[GroupSeen],
    seen: Seen,
    ask: Ask,
    *,
    rounds: Rounds,
    expected: Mapping[str, str],
    further_checks: tuple[Check, ...] = (),
) -> ScaleDown | None:
    """`asked`: those that might go, in the order in which they are asked; `expected`: nodes that pods which wait are counted on.

    None: whether they can is still being worked out.
    """
    first = next(iter(asked := iter(asked)), None)
    if first is None:
        return ScaleDown()
    if (halted := halt(seen)) is not None:
        return ScaleDown(halted=halted)
    limits = Limits(seen)
    situation = Situation(seen, groups, expected=expected)
    able, staying = _able(
        chain((first,), asked), situation, limits=limits, rounds=rounds, further_checks=further_checks
    )
    moving = tuple(candidate.name for candidate in able if candidate.pods)
    answers = ask(question_about(moving, seen)) if moving else ()
    if answers is None:
        return None
    removals = {answer.node: answer for answer in answers}
    going: list[Candidate] = []
    chosen = Chosen()
    for candidate in able:
        situation = Situation(seen, groups, chosen, removals, expected)
        # Asked again: those chosen before it in this very decision count.
        blocker = first_blocker(BEFORE_CHOOSING, candidate, situation)
        if blocker is None and (blocker := LAST(candidate, situation)) is not None:
            rounds.enter(candidate, blocker)
        blocker = blocker or limits.reached(candidate)
        if blocker is not None:
            staying.append(Stays(candidate, blocker))
            continue
        going.append(candidate)
        chosen.add(candidate)
        limits.add(candidate)
    return ScaleDown(tuple(going), tuple(staying), more=rounds.open)


def _able(
    asked: Iterable[Candidate],
    situation: Situation,
    *,
    limits: Limits,
    rounds: Rounds,
    further_checks: tuple[Check, ...],
) -> tuple[list[Candidate], list[Stays]]:
    """Those that nothing about themselves keeps, as many as can be looked at; and the others, with what does."""
    able: list[Candidate] = []
    staying: list[Stays] = []
    whole: dict[tuple[str, bool, str], Blocker | None] = {}  # what keeps every node of a group, or of a group in a zone
    rounds.begin()
    looks = 0
    for candidate in asked:
        ready = candidate.node.ready  # each of the others has a story of its own
        place = (candidate.group.key, ready, candidate.node.labels.get(ZONE, "") if ready else candidate.name)
        if place not in whole:
            whole[place] = first_blocker(OF_THE_GROUP, candidate, situation)
            if (kept := whole[place]) is not None:
                staying.append(Stays(candidate, kept))
        if whole[place] is not None:
            continue
        blocker = first_blocker((recently_blocked, pods_expected), candidate, situation) or rounds.known(candidate)
        if blocker is None:
            if looks >= LOOKS:
                rounds.goes_on()
                break
            looks += 1
            blocker = limits.already(candidate)
            if blocker is None and (
                blocker := first_blocker((*BEFORE_EVICTING, *further_checks), candidate, situation)
            ):
                rounds.enter(candidate, blocker)
        if blocker is not None:
            staying.append(Stays(candidate, blocker))
        else:
            able.append(candidate)
    return able, staying


def all_blockers(
    candidate: Candidate,
    groups: Sequence[GroupSeen],
    seen: Seen,
    ask: Ask,
    *,
    expected: Mapping[str, str],
    further_checks: tuple[Check, ...] = (),
) -> tuple[Blocker, ...]:
    """What every check says, also those that would not be asked any more."""
    answers = ask(question_about((candidate.name,), seen)) or ()
    situation = Situation(seen, groups, removals={answer.node: answer for answer in answers}, expected=expected)
    found = [check(candidate, situation) for check in (*BEFORE_CHOOSING, *further_checks, LAST)]
    return tuple(blocker for blocker in (halt(seen), *found) if blocker is not None)


class Limits:
    """How many nodes go at a time."""

    def __init__(self, seen: Seen) -> None:
        self._settings = seen.settings
        self.empty = 0
        self.draining = sum(not one.terminating for one in seen.view[VPSIE_NODES].by(BY_PHASE, "Terminating"))

    def already(self, candidate: Candidate) -> Blocker | None:
        """Reached before anyone was chosen: nothing else needs to be asked of a node with pods."""
        return self.reached(candidate) if candidate.pods else None

    def reached(self, candidate: Candidate) -> Blocker | None:
        drains, empty = self._settings.max_parallel_drains, self._settings.max_empty_removals
        if candidate.pods and self.draining >= drains:
            return Blocker("AnotherDraining", f"{self.draining} nodes are being drained, the limit is {drains}")
        if not candidate.pods and self.empty >= empty:
            return Blocker("AnotherRemoved", f"{self.empty} empty nodes go now, the limit is {empty}")
        return None

    def add(self, candidate: Candidate) -> None:
        if candidate.pods:
            self.draining += 1
        else:
            self.empty += 1


def question_about(names: tuple[str, ...], seen: Seen) -> Shrinking:
    """Nodes that go or are not ready take nobody, and pods that wait take their places before any other."""
    asked = set(names)
    gone = {one.node_name for one in seen.view[VPSIE_NODES].by(ON_THEIR_WAY_OUT, "")}
    gone |= {node.name for node in seen.view[NODES].by(NOT_READY, "")}
    waiting = tuple(
        pod
        for pod in seen.view[PODS].by(UNBOUND, "")
        if not (pod.terminating or pod.finished or pod.spec.scheduling_gates)
    )
    return Shrinking(names, tuple(sorted(gone - asked)), waiting)
