"""Places thousands of diverse pods at once: first zones by counting, then nodes shape by shape. Called by `plan`.

A hundred classes and thirty shapes make three thousand groups of one or two pods each; evaluating every rule per group
would dominate the run time. Where only rules about zones and hosts apply, zones can be assigned class by class by
counting alone, without looking at a node. After that, pods of all classes with the same shape and zone are
interchangeable except for what a host may not hold twice, which is checked pod by pod. Pods that find no place this way
are left to `group_placement`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice, pairwise
from operator import add

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.host_counters import HostCounters
from plimsoll.scheduling.inter_pod_rules import InterPodRule, SkewRule
from plimsoll.scheduling.placement_order import Sized, sizes_of
from plimsoll.scheduling.plan_state import RowIndex
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.pod_groups import Numbers
from plimsoll.scheduling.topology import Mask, Topology, TopologyCounter
from plimsoll.scheduling.water_filling import water_fill

ANYWHERE = -1

# Only the tightest nodes with room are sorted, because rules about hosts seldom exclude half of them.
_ROWS_A_POD = 2
_SPARE_ROWS = 32

_NOBODY: Numbers = np.zeros(0, np.intp)


class ClassBatch:
    """The unplaced pods of one class. Each pod gets a zone first, then a row."""

    __slots__ = ("constraints", "pods", "rows", "runs", "shapes", "zones")

    def __init__(self, constraints: ClassConstraints) -> None:
        self.constraints = constraints
        self.runs: list[range] = []  # runs of groups
        self.pods: list[int] = []
        self.shapes: Numbers = _NOBODY  # by pod: the index of its shape
        self.zones: list[int] = []  # by pod, from the first on; pods without a zone are missing at the end
        self.rows: list[int] = []  # by pod; -1: none


class _Ways:
    """The checks and counters involved in placing one pod of a class."""

    __slots__ = ("checks", "constraints", "increments", "zonal_increments")

    def __init__(self, constraints: ClassConstraints, host_counters: HostCounters) -> None:
        self.constraints = constraints
        self.checks = host_counters.checks(constraints)
        self.increments = host_counters.incremented(constraints)
        self.zonal_increments = [counter for counter in constraints.increments if not counter.topology.of_hosts]


class Bulk:
    def __init__(self, placer: Placer, batches: Sequence[ClassBatch], shapes: Mapping[int, Sized]) -> None:
        self.placer = placer
        self.state = placer.state
        self.shapes = shapes  # by index
        self.sizes = sizes_of(shapes)
        self.zone = self._zone_topology(batches)
        self._counted: dict[tuple[int, int], bool | None] = {}
        suited = [batch for batch in batches if self._suits(batch.constraints)]
        # All batches must agree on the feasible nodes. Those that agree with the first are placed together; the rest
        # goes to `group_placement`.
        first = suited[0].constraints if suited else None
        self.lot = [batch for batch in suited if self._same_nodes(first, batch.constraints)]
        if first is not None:
            static = first.static() & self.state.alive[: self.state.size]
            self.everywhere: RowIndex = static.nonzero()[0]
            self.rows = self._rows_by_zone(static)
            self._has_rows = [bool(len(rows)) for rows in self.rows]
            self.load = [0.0] * len(self.rows)  # planned load per zone, in nodes
            self._a_node = [1.0 / max(1, len(rows)) for rows in self.rows]
        self._ways: list[_Ways] = []  # by pod of the lot that has a zone
        self._row_of: list[int] = []  # by pod of the lot that has a zone

    # ── who can be placed this way ───────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _zone_topology(batches: Sequence[ClassBatch]) -> Topology | None:
        """Return the one topology key, other than hosts, that constrains most of these pods."""
        votes: dict[str, int] = {}
        topologies: dict[str, Topology] = {}
        for batch in batches:
            for counter in batch.constraints.counters:
                if not counter.topology.of_hosts:
                    topologies[counter.topology.key] = counter.topology
                    votes[counter.topology.key] = votes.get(counter.topology.key, 0) + len(batch.pods)
        return topologies[max(votes, key=votes.__getitem__)] if votes else None

    def _suits(self, constraints: ClassConstraints) -> bool:
        if constraints.has_preferences or not constraints.uniform:
            return False
        if constraints.affinity_rule is not None and any(
            counter.topology is not self.zone for counter in constraints.affinity_rule.counters
        ):
            return False
        self_limiting = 0
        for rule in constraints.rules:
            if rule.topology.each_row_its_own(self.state.size):
                continue
            if rule.topology is not self.zone or (rule.self_limiting and not isinstance(rule, SkewRule)):
                return False
            self_limiting += rule.self_limiting
        zonal = [c for c in self.state.pod_counters.increments(constraints.pod_class) if c.topology is self.zone]
        return self_limiting <= 1 and all(self._counts(c, constraints) is not None for c in zonal)

    def _counts(self, counter: TopologyCounter, constraints: ClassConstraints) -> bool | None:
        """Return whether a counter counts pods on the nodes feasible for the class; None if only on some of them."""
        watched = counter.watched
        if watched is None or watched.all_eligible:
            return True
        key = (id(watched), id(constraints.feasibility))
        if key not in self._counted:
            eligible = watched.eligible[: self.state.size][constraints.static()]
            self._counted[key] = True if eligible.all() else None if eligible.any() else False
        return self._counted[key]

    @staticmethod
    def _same_nodes(first: ClassConstraints | None, constraints: ClassConstraints) -> bool:
        if first is None or constraints.feasibility is first.feasibility:
            return first is not None
        return constraints.lane_sets == first.lane_sets and bool((constraints.static() == first.static()).all())

    def _rows_by_zone(self, static: Mask) -> list[RowIndex]:
        if self.zone is None:
            return []
        domain = self.zone.domain[: self.state.size]
        return [(static & (domain == zone)).nonzero()[0] for zone in range(len(self.zone.values))]

    # ── zones, by counting ───────────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> None:
        """Give each pod of the lot a zone and then a row, batch by batch, in an order that no rule contradicts."""
        self.state.pod_counters.make_room()
        for batch in self.lot:
            self._choose_zones(batch)
        self._choose_rows()
        for batch in self.lot:
            self.placer.note_reliance(batch.constraints)
        for batch in self.lot:
            for zone, row in zip(batch.zones, batch.rows, strict=False) if -1 in batch.rows else ():
                if row < 0 and zone != ANYWHERE:
                    # Other pods got their zones with this pod counted. Its final zone is open, so the whole plan is
                    # replayed.
                    self._count(batch.constraints, [(zone, -1)])
                    self.state.relied_on_rows = -1

    def _choose_zones(self, batch: ClassBatch) -> None:
        """Assign a zone to each pod, as far as the rules allow."""
        constraints = batch.constraints
        constraints.foresee(foreseen=True)
        zonal = [rule for rule in constraints.active_rules() if rule.topology is self.zone]
        if self.zone is None or not (zonal or constraints.affinity_rule):
            batch.zones = [ANYWHERE] * len(batch.pods)
            constraints.foresee(foreseen=False)
            return
        constraints.look_for_openable(self.shapes[int(batch.shapes[0])].shape)
        level = next((rule for rule in zonal if rule.self_limiting), None)
        allowed = self._has_rows
        for rule in zonal:
            if rule is not level:
                allowed = [a and bool(b) for a, b in zip(allowed, rule.allowed_few(), strict=True)]
        allowed = self._with_affinity(constraints, allowed)
        batch.zones = self._shares(level, allowed, len(batch.pods), constraints)
        load, a_node = self.load, self._a_node
        for zone, size in zip(batch.zones, self.sizes[batch.shapes].tolist(), strict=False):
            load[zone] += size * a_node[zone]
        constraints.foresee(foreseen=False)

    def _with_affinity(self, constraints: ClassConstraints, allowed: list[bool]) -> list[bool]:
        if constraints.affinity_rule is None:
            return allowed
        if constraints.affinity_rule.first:  # the first pod decides for all: take the zone with the least planned load
            common = self.placer.common_domains(constraints) or ()
            open_zones = [zone for zone, ok in enumerate(allowed) if ok and zone in common]
            chosen = min(open_zones, key=lambda zone: (self.load[zone], zone), default=-1)
            return [zone == chosen for zone in range(len(allowed))]
        for counter in constraints.affinity_rule.counters:
            allowed = [a and count > 0 for a, count in zip(allowed, counter.counts_list(), strict=True)]
        return allowed

    def _shares(
        self, level: InterPodRule | None, allowed: list[bool], pods: int, constraints: ClassConstraints
    ) -> list[int]:
        """Return the zone of each pod, in an order that keeps the skew within its limit, and update the counts."""
        order = sorted((zone for zone, ok in enumerate(allowed) if ok), key=lambda zone: (self.load[zone], zone))
        if not order:
            return []
        if isinstance(level, SkewRule):
            by_zone = level.counter.counts_list()
            counts = [by_zone[zone] for zone in order]
            shares = water_fill(counts, pods, level.level_limit(allowed))
            rising_zones = list(zip(order, counts, map(add, counts, shares), strict=True))
            levels = range(min(counts), max(map(add, counts, shares)))
            zones = [zone for level in levels for zone, low, high in rising_zones if low <= level < high]
        else:
            zones = [*islice(cycle(order), pods)]
            shares = [-(-(pods - place) // len(order)) for place in range(len(order))]
        self._count(constraints, list(zip(order, shares, strict=True)))
        return zones

    def _count(self, constraints: ClassConstraints, pods_by_zone: list[tuple[int, int]]) -> None:
        for counter in constraints.increments:
            if counter.topology is self.zone and self._counts(counter, constraints):
                counter.add_in_domains(pods_by_zone)

    # ── rows, shape by shape ─────────────────────────────────────────────────────────────────────────────────────────

    def _choose_rows(self) -> None:
        """Find rows for all pods of the lot, grouped by shape and zone, the largest shape first."""
        host_counters = HostCounters(self.state.size)
        for batch in self.lot:
            self._ways += [_Ways(batch.constraints, host_counters)] * len(batch.zones)
        self._row_of = [-1] * len(self._ways)
        ordered = sorted(self.shapes, key=lambda index: (-self.shapes[index].size, self.shapes[index].shape))
        rank = np.zeros(1 + max(ordered), np.int64)
        rank[ordered] = np.arange(len(ordered))
        zones = np.array(list(chain.from_iterable([batch.zones for batch in self.lot])), np.int64)
        ranks = rank[np.concatenate([batch.shapes[: len(batch.zones)] for batch in self.lot])]
        # Within a shape, pods without a zone come last.
        lots = ranks * (len(self.rows) + 1) + (len(self.rows) - 1 - zones)
        order = lots.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(lots[order], prepend=-1)).tolist()
        pods: list[int] = order.tolist()
        for start, stop in pairwise([*starts, len(pods)]):
            shape, zone = self.shapes[ordered[ranks[pods[start]]]].shape, int(zones[pods[start]])
            rows = self.everywhere if zone == ANYWHERE else self.rows[zone]
            self._fill(shape, pods[start:stop], rows, anywhere=zone == ANYWHERE)
        host_counters.put_back()
        start = 0
        for batch in self.lot:
            stop = start + len(batch.zones)
            batch.rows = self._row_of[start:stop] + [-1] * (len(batch.pods) - len(batch.zones))
            start = stop

    def _fill(self, shape: Shape, pods: list[int], rows: RowIndex, *, anywhere: bool) -> None:
        """Put one pod on each of the tightest rows that hold it, repeatedly, and enlarge nodes when no row is left."""
        first_new = int(rows.searchsorted(self.state.first_new))
        existing, new = rows[:first_new], rows[first_new:]
        for part in (existing, new):
            while pods and len(part):
                fits = self._fits(shape, part)
                left = self._fill_once(shape, pods, self._tightest(part[fits], len(pods)), anywhere=anywhere)
                if len(left) == len(pods):
                    left = self._fill_once(shape, pods, self._tightest(part[fits]), anywhere=anywhere)
                stuck = len(left) == len(pods)
                pods = left
                if stuck and (part is existing or not self._grow(self._ways[pods[0]].constraints, shape, part[~fits])):
                    break

    def _fits(self, shape: Shape, rows: RowIndex) -> Mask:
        free = self.state.free
        (resource, amount), *others = shape  # at least the pod count is part of every shape
        fits: Mask = free[resource].take(rows) >= amount
        for resource, amount in others:
            fits &= free[resource].take(rows) >= amount
        return fits

    def _tightest(self, rows: RowIndex, pods: int | None = None) -> list[int]:
        """Return rows by free amount, the tightest first. With `pods`, return only as many rows as these can need,
        which is much faster to sort.
        """
        slack = self.state.slack.take(rows)
        enough = len(rows) if pods is None else _ROWS_A_POD * pods + _SPARE_ROWS
        if len(rows) > 2 * enough:
            tight = slack <= np.partition(slack, enough)[enough]
            rows, slack = rows[tight], slack[tight]
        ordered: list[int] = rows[slack.argsort(kind="stable")].tolist()
        return ordered

    def _grow(self, constraints: ClassConstraints, shape: Shape, rows: RowIndex) -> bool:
        return bool(len(rows)) and self.placer.sizer.climb(constraints, shape, rows)

    def _fill_once(self, shape: Shape, pods: list[int], waiting: list[int], *, anywhere: bool) -> list[int]:
        """Put one pod on each row of `waiting`, in order; return the pods that no row accepts."""
        left: list[int] = []
        taken: list[int] = []
        ways, row_of = self._ways, self._row_of
        for index, pod in enumerate(pods):
            if not waiting:
                left += pods[index:]
                break
            way = ways[pod]
            for row in waiting:  # hot loop: inlined
                for host_counter, most, from_low, kept in way.checks:
                    if host_counter.count[row] > (most + host_counter.low if from_low else most) and (
                        kept is None or kept.count[row]
                    ):
                        break
                else:
                    break
            else:
                left.append(pod)
                continue
            row_of[pod] = row
            waiting.remove(row)
            taken.append(row)
            for host_counter in way.increments:
                if host_counter.eligible is None or host_counter.eligible[row]:
                    before = host_counter.count[row]
                    host_counter.count[row] = before + 1
                    if before == host_counter.low:
                        host_counter.at_low -= 1
                        if not host_counter.at_low:
                            host_counter.find_low()
            if anywhere:
                for counter in way.zonal_increments:
                    counter.add_one(row)
        if taken:
            self.state.take(shape, np.array(taken))
        return left
