"""Finds pods of a finished plan that break the topology spread of others, and better places for them. Used by `repair`.

kube-scheduler evaluates a spread only when it places the pod that has it, so later pods may break it. The counters of
the final plan state show where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.pod_counters import KeptSpread
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_groups import ShapeGroups
from plimsoll.scheduling.topology import Counts, TopologyCounter, Watched

Pods: TypeAlias = frozenset[int]  # indexes of pods
NOBODY: Pods = frozenset()

_MOST_ROWS = 64  # rows that are tried for the move of one pod


class MoveTarget(NamedTuple):
    """Where a pod goes: an existing row, a further node of a lane, or (by default) any feasible node."""

    row: int = -1
    lane: int = -1
    members: int = 0  # offerings the node may become
    offering: int = -1


class MoveCandidate(NamedTuple):
    pod: int
    group: int
    row: int


class SkewViolations:
    def __init__(
        self,
        placer: Placer,
        placed: Sequence[tuple[PodClass, list[int], list[int]]],
        ranks: Mapping[int, int],
        groups: ShapeGroups,
    ) -> None:
        """`placed` are pods and their rows by class; `ranks` tell by class how few rules it has."""
        self._placer = placer
        self._state = placer.state
        self._placed = placed
        self._ranks = ranks
        self._groups = groups
        self._elsewhere: dict[tuple[int, int], bool] = {}

    def everybody(self) -> Pods:
        return frozenset(range(len(self._groups.of)))

    def groups_of(self, pods: Pods) -> frozenset[int]:
        return frozenset(self._groups.of[pod] for pod in pods)

    def _broken_spreads(self) -> Iterator[tuple[KeptSpread, Counts]]:
        """Yield spreads of the plan that do not hold, with the excess by domain."""
        for spread in self._state.pod_counters.kept_spreads:
            if spread.kept.total:
                most = spread.max_skew + spread.counter.minimum(spread.min_domains)
                over = np.where(spread.kept.by_domain() > 0, spread.counter.by_domain() - most, 0)
                if (over > 0).any():
                    yield spread, over

    def disturbed(self) -> Pods:
        """Return the pods of the plan whose own spread does not hold."""
        bad = {id(spread.kept): over > 0 for spread, over in self._broken_spreads()}
        found: set[int] = set()
        for pod_class, pods, rows in self._placed if bad else ():
            for kept in self._state.pod_counters.increments(pod_class):
                if id(kept) in bad:
                    where = bad[id(kept)][kept.topology.domain[rows]]
                    found.update(pod for pod, so in zip(pods, where, strict=True) if so)
        return frozenset(found)

    def too_many(self) -> Pods:
        """Return the minimum excess pods of broken spreads, those with the fewest rules first."""
        found: set[int] = set()
        for spread, over in self._broken_spreads():
            for pod, domain in self._counted_by(spread.counter):
                if over[domain] > 0 and pod not in found:
                    found.add(pod)
                    over[domain] -= 1
        return frozenset(found)

    def excess_pods(self) -> list[int]:
        """Return all pods of domains with excess, those with the fewest rules first."""
        pods = [
            pod
            for spread, over in self._broken_spreads()
            for pod, domain in self._counted_by(spread.counter)
            if over[domain] > 0
        ]
        return list(dict.fromkeys(pods))

    def _counted_by(self, counter: TopologyCounter) -> Iterator[tuple[int, int]]:
        """Yield the pods of the plan that a counter counts and that could run in another domain, with their domain."""
        by_rank = sorted(self._placed, key=lambda placed: -self._ranks[placed[0].index])
        for pod_class, pods, rows in by_rank:
            if not any(incremented is counter for incremented in self._state.pod_counters.increments(pod_class)):
                continue
            if not counter.topology.of_hosts and not self._could_be_elsewhere(pod_class, counter):
                continue
            for pod, domain in zip(pods, counter.topology.domain[rows].tolist(), strict=True):
                if domain >= 0:
                    yield pod, domain

    def _could_be_elsewhere(self, pod_class: PodClass, counter: TopologyCounter) -> bool:
        """Whether the class could run in another domain, or on a node that does not count."""
        key = (pod_class.index, id(counter))
        if key not in self._elsewhere:
            constraints = self._placer.constraints(pod_class)
            domains = self._placer.reached(constraints, counter.topology)
            self._elsewhere[key] = len(domains) > 1 or self._could_be_overlooked(constraints, counter.watched)
        return self._elsewhere[key]

    def _could_be_overlooked(self, constraints: ClassConstraints, watched: Watched | None) -> bool:
        if watched is None:
            return False
        offerings = self._state.offerings
        return bool((constraints.static() & ~watched.eligible[: self._state.size]).any()) or any(
            members and offerings.can_open(lane) and not watched.offerings[lane.members[0]]
            for lane, members in zip(offerings.lanes, constraints.lane_sets, strict=True)
        )

    def candidates(self) -> list[MoveCandidate]:
        """Return pods whose move alone could repair a broken spread, the likeliest last.

        Candidates break the spread, have it, or could raise its lowest domain. Of equal pods on one node, one is
        returned.
        """
        first = {pod: n for n, pod in enumerate((*self.excess_pods(), *sorted(self.disturbed())))}
        broken = {
            id(one): spread.counter for spread, _ in self._broken_spreads() for one in (spread.counter, spread.kept)
        }
        found: dict[tuple[int, int], MoveCandidate] = {}
        for pod_class, pods, rows in self._placed:
            changed = {broken[id(one)] for one in self._state.pod_counters.increments(pod_class) if id(one) in broken}
            if any(one.topology.of_hosts or self._could_be_elsewhere(pod_class, one) for one in changed):
                for pod, row in zip(pods, rows, strict=True):
                    group = self._groups.of[pod]
                    found[group, row] = MoveCandidate(pod, group, row)
        return sorted(found.values(), key=lambda one: -first.get(one.pod, len(first)))

    def better_place(self, constraints: ClassConstraints, shape: Shape, row: int) -> MoveTarget | None:
        """Return the place that leaves the fewest violations for a pod on `row`; None if no place improves."""
        fewest, best = self._harm(), None
        self._count(constraints, row, -1)
        constraints.give_up(constraints.relax_fully())
        for goal, harm in chain(self._on_others(constraints, shape, row), self._on_new(constraints, shape)):
            if harm < fewest:
                fewest, best = harm, goal
        constraints.give_up(None)
        self._count(constraints, row, 1)
        return best

    def _on_others(self, constraints: ClassConstraints, shape: Shape, row: int) -> Iterator[tuple[MoveTarget, int]]:
        state = self._state
        allowed = constraints.open_rows().copy()
        allowed[row] = False
        for resource, amount in shape:
            allowed &= state.free[resource, : state.size] >= amount
        for other in np.flatnonzero(allowed)[:_MOST_ROWS].tolist():
            yield MoveTarget(row=other), self._harm_with(constraints, other)

    def _on_new(self, constraints: ClassConstraints, shape: Shape) -> Iterator[tuple[MoveTarget, int]]:
        """Yield further nodes, which may be in the lowest domain."""
        state = self._state
        for index, lane in enumerate(state.offerings.lanes if constraints.pod_class.triggers_scale_up else ()):
            choice = (
                self._placer.sizer.opening(constraints, index, shape, 1) if constraints.allows_lane(index) else None
            )
            if choice is not None:
                goal = MoveTarget(
                    lane=index, members=constraints.lane_sets[index], offering=int(lane.members[choice[0]])
                )
                row = state.open_one(index, goal.members, goal.offering)
                harm = self._harm_with(constraints, row) if constraints.mask()[row] else None
                state.close(row)
                if harm is not None:
                    yield goal, harm

    def _harm_with(self, constraints: ClassConstraints, row: int) -> int:
        self._count(constraints, row, 1)
        harm = self._harm()
        self._count(constraints, row, -1)
        return harm

    def _harm(self) -> int:
        """Return the number of violations; a pod with two broken spreads counts twice."""
        return sum(int(spread.kept.by_domain()[over > 0].sum()) for spread, over in self._broken_spreads())

    @staticmethod
    def _count(constraints: ClassConstraints, row: int, amount: int) -> None:
        for counter in constraints.increments:
            counter.add_one(row, amount)
