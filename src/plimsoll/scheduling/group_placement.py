"""Places a group of equivalent pods: on existing nodes, on new nodes, on enlarged new nodes, on further new nodes.

`Placer._place_all` is the whole algorithm. Each iteration evaluates every rule and then places as many pods as are
certain to be valid: all of them where pods do not limit each other, one per node for anti-affinity, level by level over
zones for a spread, a single one where rules interact or preferences decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import PLENTY, InterPodRule, SkewRule
from plimsoll.scheduling.node_sizing import NodeSizer
from plimsoll.scheduling.plan_state import Ints, PlanState, RowIndex
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.static_feasibility import StaticFeasibility, what_it_asks_of_nodes
from plimsoll.scheduling.topology import NOWHERE, Domains, Mask, Topology
from plimsoll.scheduling.water_filling import water_fill

# For so few pods, placing one by one is faster than setting up the arrays.
_A_FEW = 3


class Placer:
    def __init__(self, state: PlanState, *, first_fit: bool = False, batches: Mapping[int, int] | None = None) -> None:
        self.state = state
        self._pod_counts = batches or {}  # by class: the number of pods to place
        self.first_fit = first_fit  # take the first feasible node, not the best fit
        self.expects_empty_hosts = False
        self.may_open = True  # whether further nodes may be opened, for pods that trigger scale-up
        self.opened_for_room = False  # whether a node was opened although rules would have accepted an existing one
        self.sizer = NodeSizer(state, first_fit=first_fit)
        self._constraints: dict[int, ClassConstraints] = {}
        self._grounds: dict[object, StaticFeasibility] = {}

    def constraints(self, pod_class: PodClass) -> ClassConstraints:
        constraints = self._constraints.get(pod_class.index)
        if constraints is None:
            asks = what_it_asks_of_nodes(self.state, pod_class)
            feasibility = self._grounds.get(asks)
            if feasibility is None:
                feasibility = self._grounds[asks] = StaticFeasibility(self.state, pod_class)
            constraints = self._constraints[pod_class.index] = ClassConstraints(self.state, pod_class, feasibility)
        return constraints

    def place(
        self, pod_class: PodClass, shape: Shape, count: int, *, may_open: bool = True, relax: bool = True
    ) -> list[int]:
        """Place up to `count` pods and return the row of each, in an order that no rule contradicts.

        With `relax`, the spread of as few earlier pods as possible is broken before a pod stays unplaced, and a pod
        that cannot go where most of its affinity group can may decide for the whole group.
        """
        constraints = self.constraints(pod_class)
        may_open = may_open and self.may_open
        constraints.expect_empty_hosts(expected=self.expects_empty_hosts)
        placed: list[int] = []
        if constraints.affinity_rule is not None:
            constraints.affinity_rule.first_only_in = self.common_domains(constraints)
        self._place_all(constraints, shape, count, placed, may_open=may_open)
        if constraints.affinity_rule is not None:
            constraints.affinity_rule.first_only_in = None
            if relax and len(placed) < count and constraints.affinity_rule.first:
                self._place_all(constraints, shape, count, placed, may_open=may_open)
        if relax and len(placed) < count and constraints.protects_others:
            constraints.give_up(constraints.relax_fully())
            for way in (
                constraints.relaxations() if self._could_be_placed(constraints, shape, may_open=may_open) else ()
            ):
                constraints.give_up(way)
                self._place_all(constraints, shape, count, placed, may_open=may_open)
                if len(placed) == count:
                    break
            constraints.give_up(None)
        return placed

    def place_apart(self, constraints: ClassConstraints, groups: Sequence[tuple[Shape, int]]) -> list[list[int]]:
        """Open one new node per pod for a class whose pods may not share a host, if no other node is feasible. By group
        (a shape and its pod count): the row of each pod, as many as nodes are available.

        The result equals calling `place` group by group, where each group finds the nodes of the others taken.
        """
        state = self.state
        if (
            self.first_fit
            or not constraints.pod_class.triggers_scale_up
            or not constraints.stay_apart()
            or constraints.open_rows().any()
            or constraints.growable().any()
        ):
            return []
        openings = [self.sizer.openings(constraints, shape, pods, ()) for shape, pods in groups]
        nodes = [sum(opening.nodes for opening in of_group) for of_group in openings]
        if not sum(nodes):
            return []
        rows = state.open([opening for of_group in openings for opening in of_group])
        state.place_each(constraints.pod_class, [shape for shape, _ in groups], nodes, rows)
        self.note_reliance(constraints)
        every = iter(rows.tolist())
        return [list(islice(every, count)) for count in nodes]

    def _could_be_placed(self, constraints: ClassConstraints, shape: Shape, *, may_open: bool) -> bool:
        """Return False where no relaxation can help."""
        state = self.state
        if len(self._fitting(shape, constraints.open_rows(), 0, state.size)) or constraints.growable().any():
            return True
        return may_open and any(constraints.allows_lane(index) for index in range(len(state.offerings.lanes)))

    def put(self, pod_class: PodClass, shape: Shape, row: int, *, heedless: bool = False) -> bool:
        """Place one pod on exactly that row if the rules allow it. `heedless` ignores the spread of other pods."""
        constraints = self.constraints(pod_class)
        if heedless:
            constraints.give_up(constraints.relax_fully())
        allowed = constraints.open_rows()[row]
        if heedless:
            constraints.give_up(None)
        if not allowed or any(self.state.free[resource, row] < amount for resource, amount in shape):
            return False
        self._put_one(constraints, shape, row)
        self.note_reliance(constraints)
        return True

    def note_reliance(self, constraints: ClassConstraints) -> None:
        """Record the row count from which further nodes may invalidate a placement."""
        if self.state.relied_on_rows > self.state.size and constraints.relies_on_rows():
            self.state.relied_on_rows = self.state.size

    def _place_all(
        self, constraints: ClassConstraints, shape: Shape, count: int, placed: list[int], *, may_open: bool
    ) -> None:
        state = self.state
        closed: set[int] = set()  # lanes that were tried without success
        opened_in: list[int] = []  # lanes of the nodes from row `opened` on, opened for this group
        opened = state.size
        if may_open:
            constraints.look_for_openable(shape)
        else:
            constraints.forget_openable()
        while len(placed) < count:
            left = count - len(placed)
            if self._fill_with_foresight(constraints, shape, left, placed, opened if opened_in else 0):
                opened_in = []
                self.note_reliance(constraints)
                continue
            if opened_in:  # not even a fresh node is feasible: a DaemonSet pod on it is in the way
                closed.update(opened_in)
                state.close(opened)
                opened_in = []
            growable = constraints.growable()
            if not self.first_fit and self.sizer.grow(constraints, shape, growable):
                continue
            if may_open:
                opened = state.size
                openings = self.sizer.openings(constraints, shape, left, closed)
                if openings:
                    state.open(openings)
                    opened_in = [opening.lane for opening in openings]
                    self.opened_for_room = self.opened_for_room or bool(growable.any())
                    continue
            if not constraints.forget_openable():
                return  # no expected domain held pods back, so the result is final

    # ── on open nodes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _fill_with_foresight(
        self, constraints: ClassConstraints, shape: Shape, left: int, placed: list[int], first: int
    ) -> bool:
        if constraints.gives_up is None and constraints.foresee(foreseen=True):
            filled = self._fill(constraints, shape, left, placed, first)
            constraints.foresee(foreseen=False)
            if filled:
                return True
        return self._fill(constraints, shape, left, placed, first)

    def _fill(self, constraints: ClassConstraints, shape: Shape, left: int, placed: list[int], first: int) -> bool:
        """Place what fits now on rows from `first` on, existing and coming nodes before new ones. Return False if
        nothing fits.
        """
        state = self.state
        self_limiting: list[InterPodRule] = []
        single = (
            left == 1
            or constraints.has_preferences
            or (constraints.affinity_rule is not None and constraints.affinity_rule.first)
        )
        if not single:
            self_limiting = [rule for rule in constraints.active_rules() if rule.self_limiting]
            zonal = [rule for rule in self_limiting if not rule.topology.each_row_its_own(state.size)]
            if zonal:
                level = zonal[0] if len(zonal) == 1 and left > _A_FEW and not self.first_fit else None
                rows_by_level = (
                    self._fill_levels(constraints, shape, left, level, first=first)
                    if isinstance(level, SkewRule)
                    else []
                )
                if rows_by_level:
                    placed += rows_by_level
                    return True
                single = True
        mask = constraints.open_rows()
        for start, stop in ((first, state.first_new), (max(first, state.first_new), state.size)):
            if start >= stop:
                continue
            if self.first_fit and stop == state.size and not self.sizer.sizes_are_fixed():
                return self._fill_first(constraints, shape, 1 if single else left, placed, first)
            rows = self._fitting(shape, mask, start, stop)
            if not len(rows):
                continue
            if single:
                row = self._best(constraints, rows)
                self._put_one(constraints, shape, row)
                placed.append(row)
            else:
                rows, counts = self._choose(rows, self._capacity(shape, rows, self_limiting), left)
                self._put(constraints, shape, rows, counts)
                placed += np.repeat(rows, counts).tolist()
            return True
        return False

    def _fill_first(
        self, constraints: ClassConstraints, shape: Shape, left: int, placed: list[int], first: int
    ) -> bool:
        """Take the first new node that could become an offering holding one more pod, and fill it to its maximum."""
        self_limiting = [rule for rule in constraints.active_rules() if rule.self_limiting]
        for row in self.sizer.could_hold(constraints, shape):
            if row < first:
                continue
            rows = np.array([row])
            most = min([left, *(int(rule.room_at(rows)[0]) for rule in self_limiting)])
            count = self.sizer.resize_for(constraints, row, shape, most)
            if count:
                self._put(constraints, shape, rows, np.array([count]))
                placed += [row] * count
                return True
        return False

    def _fitting(self, shape: Shape, mask: Mask, start: int, stop: int) -> RowIndex:
        fits = mask[start:stop]
        free = self.state.free
        for resource, amount in shape:
            fits = fits & (free[resource, start:stop] >= amount)
        rows: RowIndex = fits.nonzero()[0]
        return rows + start if start else rows

    def _best(self, constraints: ClassConstraints, rows: RowIndex) -> int:
        if constraints.has_preferences:
            preference_scores = constraints.preference_scores()[rows]
            rows = rows[preference_scores == preference_scores.max()]
        if constraints.affinity_rule is not None and constraints.affinity_rule.first:
            topology = constraints.affinity_rule.counters[0].topology
            rows = self._roomiest_domain(topology.domain[rows], rows)
        return int(rows[0] if self.first_fit else rows[self.state.slack[rows].argmin()])

    def common_domains(self, constraints: ClassConstraints) -> frozenset[int] | None:
        """Return the domains in which most pods in play with the same affinity could run.

        The first pod decides for the others; higher priorities decide first. None if nothing is left to decide, or if
        the affinity is about hosts.
        """
        if (
            constraints.affinity_rule is None
            or not constraints.affinity_rule.first
            or constraints.affinity_rule.counters[0].topology.of_hosts
        ):
            return None
        topology = constraints.affinity_rule.counters[0].topology
        affinity_group = [other for other in self.state.in_play if other.affinity == constraints.pod_class.affinity]
        priorities = sorted({other.priority for other in affinity_group}, reverse=True)
        votes: dict[int, list[int]] = {}
        for other in affinity_group:
            for domain in self.reached(self.constraints(other), topology):
                by_priority = votes.setdefault(domain, [0] * len(priorities))
                by_priority[priorities.index(other.priority)] += self._pod_counts.get(other.index, 1)
        most = max(votes.values(), default=[])
        return frozenset(domain for domain, by_priority in votes.items() if by_priority == most)

    def reached(self, constraints: ClassConstraints, topology: Topology) -> set[int]:
        """Return the domains with a node that accepts the class, or where one could be opened for it."""
        reached = set(topology.domain[: self.state.size][constraints.static()].tolist()) - {NOWHERE}
        for lane, members in zip(self.state.offerings.lanes, constraints.lane_sets, strict=True):
            value = lane.domains.get(topology.key)
            if members and value is not None and self.state.offerings.can_open(lane):
                reached.add(topology.enter(value))
        return reached

    def _roomiest_domain(self, domains: Domains, rows: RowIndex) -> RowIndex:
        """Return the rows of the domain with the most room: the first pod of an affinity group decides for all."""
        room = np.bincount(domains, np.maximum(self.state.slack[rows], 0) + 1e-12)
        inside: RowIndex = rows[domains == room.argmax()]
        return inside

    def _capacity(self, shape: Shape, rows: RowIndex, self_limiting: list[InterPodRule]) -> Ints:
        """Return how many pods each row takes, by amounts and by the class's own rules about hosts."""
        free = self.state.free
        capacity = np.full(len(rows), PLENTY)
        for resource, amount in shape:
            np.minimum(capacity, free[resource, rows] // amount, out=capacity)
        for rule in self_limiting:
            np.minimum(capacity, rule.room_at(rows), out=capacity)
        return capacity

    def _choose(self, rows: RowIndex, capacity: Ints, left: int) -> tuple[RowIndex, Ints]:
        """Fill the tightest row first, each completely, until `left` pods are placed."""
        if not self.first_fit and len(rows) > 1:
            order = self.state.slack[rows].argsort(kind="stable")
            if len(order) > left:
                order = order[:left]  # each takes at least one
            rows, capacity = rows[order], capacity[order]
        total = capacity.cumsum()
        used = int(total.searchsorted(left)) + 1
        rows, capacity = rows[:used], capacity[:used]
        over = int(total[len(rows) - 1]) - left
        if over > 0:
            capacity[-1] -= over
        return rows, capacity

    def _put(self, constraints: ClassConstraints, shape: Shape, rows: RowIndex, counts: Ints) -> None:
        if len(rows) <= _A_FEW:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._put_one(constraints, shape, row, count)
            return
        self.state.place(constraints.pod_class, shape, rows, counts)
        if not constraints.uniform:
            new = rows[rows >= self.state.first_new]
            if len(new):
                self.state.narrow(new, constraints.lane_sets)

    def _put_one(self, constraints: ClassConstraints, shape: Shape, row: int, count: int = 1) -> None:
        self.state.place_one(constraints.pod_class, shape, row, count)
        if not constraints.uniform and row >= self.state.first_new:
            self.state.narrow(np.array([row]), constraints.lane_sets)

    def _fill_levels(
        self, constraints: ClassConstraints, shape: Shape, left: int, rule: SkewRule, *, first: int
    ) -> list[int]:
        """Spread pods over zones by counting: all domains with room rise together within the skew limit."""
        state = self.state
        rows = self._fitting(shape, constraints.open_rows(), first, state.size)
        domains = rule.topology.domain[rows]
        if len(domains) and domains.min() < 0:
            rows, domains = rows[domains >= 0], domains[domains >= 0]
        if not len(rows):
            return []
        hosts = [other for other in constraints.active_rules() if other.self_limiting and other is not rule]
        capacity = self._capacity(shape, rows, hosts)
        counts = rule.counter.by_domain()
        room = np.bincount(domains, capacity, minlength=len(counts)).astype(np.int64)
        shares = water_fill(counts.tolist(), left, rule.level_limit((room > 0).tolist()), room.tolist())
        by_level: list[tuple[int, int, int]] = []
        for domain, share in enumerate(shares):
            inside = (domains == domain).nonzero()[0]
            split = int(rows[inside].searchsorted(state.first_new))
            level, due = int(counts[domain]), share
            for part in (inside[:split], inside[split:]):
                if due and len(part):
                    chosen, numbers = self._choose(rows[part], capacity[part], due)
                    self._put(constraints, shape, chosen, numbers)
                    expanded = np.repeat(chosen, numbers).tolist()
                    done = share - due
                    by_level += [(level + done + i, domain, row) for i, row in enumerate(expanded)]
                    due -= len(expanded)
        by_level.sort(key=lambda entry: entry[:2])
        return [row for _, _, row in by_level]
