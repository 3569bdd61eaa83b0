"""Which pods of a plan are too many for the spread of others, and what a move of one of them would be worth.

A spread is asked when the pod that has it is placed; those that come later may break it. Here the finished plan is looked at, by
the counts of the board that it ended on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.pod_counters import KeptSpread
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_groups import Groups
from plimsoll.scheduling.topology import Counter, Counts, Watched

Pods: TypeAlias = frozenset[int]  # their numbers
NOBODY: Pods = frozenset()

_MOST_ROWS = 64  # that are looked at for the move of one pod


class Goal(NamedTuple):
    """Where a pod is to go: a node that is there, or a further one of a lane, or neither: where there is a place."""

    row: int = -1
    lane: int = -1
    members: int = 0  # what such a node may become
    offering: int = -1


class Candidate(NamedTuple):
    pod: int
    group: int
    row: int


class Crowding:
    def __init__(
        self,
        placer: Placer,
        placed: Sequence[tuple[PodClass, list[int], list[int]]],
        ranks: Mapping[int, int],
        groups: Groups,
    ) -> None:
        """`placed` are pods and their rows, class by class; `ranks` tell by class how few rules of its own it has."""
        self._placer = placer
        self._board = placer.board
        self._placed = placed
        self._ranks = ranks
        self._groups = groups
        self._elsewhere: dict[tuple[int, int], bool] = {}

    def everybody(self) -> Pods:
        return frozenset(range(len(self._groups.of)))

    def groups_of(self, pods: Pods) -> frozenset[int]:
        return frozenset(self._groups.of[pod] for pod in pods)

    def _broken_spreads(self) -> Iterator[tuple[KeptSpread, Counts]]:
        """Spreads that pods of the plan rely on and that do not hold in the end, and by domain how many are too many there."""
        for spread in self._board.census.kept_spreads:
            if spread.kept.total:
                most = spread.max_skew + spread.counter.minimum(spread.min_domains)
                over = np.where(spread.kept.by_domain() > 0, spread.counter.by_domain() - most, 0)
                if (over > 0).any():
                    yield spread, over

    def disturbed(self) -> Pods:
        """The pods of the plan whose own spread does not hold in the end."""
        bad = {id(spread.kept): over > 0 for spread, over in self._broken_spreads()}
        found: set[int] = set()
        for pod_class, pods, rows in self._placed if bad else ():
            for kept in self._board.census.bumps(pod_class):
                if id(kept) in bad:
                    where = bad[id(kept)][kept.topology.domain[rows]]
                    found.update(pod for pod, so in zip(pods, where, strict=True) if so)
        return frozenset(found)

    def too_many(self) -> Pods:
        """As many pods as are too many for a broken spread, those with the fewest rules of their own first."""
        found: set[int] = set()
        for spread, over in self._broken_spreads():
            for pod, domain in self._counted_by(spread.counter):
                if over[domain] > 0 and pod not in found:
                    found.add(pod)
                    over[domain] -= 1
        return frozenset(found)

    def crowding(self) -> list[int]:
        """All pods of which there are too many for a broken spread, those with the fewest rules of their own first."""
        pods = [
            pod
            for spread, over in self._broken_spreads()
            for pod, domain in self._counted_by(spread.counter)
            if over[domain] > 0
        ]
        return list(dict.fromkeys(pods))

    def _counted_by(self, counter: Counter) -> Iterator[tuple[int, int]]:
        """The pods of the plan that a counter counts and that could be in another domain than theirs, with that domain."""
        by_rank = sorted(self._placed, key=lambda placed: -self._ranks[placed[0].index])
        for pod_class, pods, rows in by_rank:
            if not any(bumped is counter for bumped in self._board.census.bumps(pod_class)):
                continue
            if not counter.topology.of_hosts and not self._could_be_elsewhere(pod_class, counter):
                continue
            for pod, domain in zip(pods, counter.topology.domain[rows].tolist(), strict=True):
                if domain >= 0:
                    yield pod, domain

    def _could_be_elsewhere(self, pod_class: PodClass, counter: Counter) -> bool:
        """In another domain, or on a node where it would not count."""
        key = (pod_class.index, id(counter))
        if key not in self._elsewhere:
            view = self._placer.view(pod_class)
            domains = self._placer.reached(view, counter.topology)
            self._elsewhere[key] = len(domains) > 1 or self._could_be_overlooked(view, counter.watched)
        return self._elsewhere[key]

    def _could_be_overlooked(self, view: View, watched: Watched | None) -> bool:
        if watched is None:
            return False
        offerings = self._board.offerings
        return bool((view.static() & ~watched.eligible[: self._board.size]).any()) or any(
            members and offerings.can_open(lane) and not watched.offerings[lane.members[0]]
            for lane, members in zip(offerings.lanes, view.lane_sets, strict=True)
        )

    def candidates(self) -> list[Candidate]:
        """Those whose move alone could mend a broken spread, the likeliest last: who breaks it, who has it, and who could raise its
        lowest domain. Of pods that are alike and on one node, one.
        """
        first = {pod: n for n, pod in enumerate((*self.crowding(), *sorted(self.disturbed())))}
        broken = {
            id(one): spread.counter for spread, _ in self._broken_spreads() for one in (spread.counter, spread.kept)
        }
        found: dict[tuple[int, int], Candidate] = {}
        for pod_class, pods, rows in self._placed:
            changed = {broken[id(one)] for one in self._board.census.bumps(pod_class) if id(one) in broken}
            if any(one.topology.of_hosts or self._could_be_elsewhere(pod_class, one) for one in changed):
                for pod, row in zip(pods, rows, strict=True):
                    group = self._groups.of[pod]
                    found[group, row] = Candidate(pod, group, row)
        return sorted(found.values(), key=lambda one: -first.get(one.pod, len(first)))

    def better_place(self, view: View, shape: Shape, row: int) -> Goal | None:
        """Where a pod that is on `row` would leave the fewest pods disturbed; None if nowhere fewer than now."""
        fewest, best = self._harm(), None
        self._count(view, row, -1)
        view.give_up(view.whatever_it_takes())
        for goal, harm in chain(self._on_others(view, shape, row), self._on_new(view, shape)):
            if harm < fewest:
                fewest, best = harm, goal
        view.give_up(None)
        self._count(view, row, 1)
        return best

    def _on_others(self, view: View, shape: Shape, row: int) -> Iterator[tuple[Goal, int]]:
        board = self._board
        allowed = view.open_rows().copy()
        allowed[row] = False
        for resource, amount in shape:
            allowed &= board.free[resource, : board.size] >= amount
        for other in np.flatnonzero(allowed)[:_MOST_ROWS].tolist():
            yield Goal(row=other), self._harm_with(view, other)

    def _on_new(self, view: View, shape: Shape) -> Iterator[tuple[Goal, int]]:
        """A further node may be in the lowest domain."""
        board = self._board
        for index, lane in enumerate(board.offerings.lanes if view.pod_class.worth_a_node else ()):
            choice = self._placer.grower.opening(view, index, shape, 1) if view.allows_lane(index) else None
            if choice is not None:
                goal = Goal(lane=index, members=view.lane_sets[index], offering=int(lane.members[choice[0]]))
                row = board.open_one(index, goal.members, goal.offering)
                harm = self._harm_with(view, row) if view.mask()[row] else None
                board.close(row)
                if harm is not None:
                    yield goal, harm

    def _harm_with(self, view: View, row: int) -> int:
        self._count(view, row, 1)
        harm = self._harm()
        self._count(view, row, -1)
        return harm

    def _harm(self) -> int:
        """How many pods are disturbed; one with two broken spreads counts twice."""
        return sum(int(spread.kept.by_domain()[over > 0].sum()) for spread, over in self._broken_spreads())

    @staticmethod
    def _count(view: View, row: int, amount: int) -> None:
        for counter in view.bumps:
            counter.add_one(row, amount)
