"""Placing thousands of diverse pods: first zones by counting, then nodes shape by shape.

Pods of a hundred classes and thirty shapes are three thousand groups of one or two pods each: to ask every rule for every group
would cost more than all the rest. But where no rule but those about zones and hosts has a say, zones can be decided class by class by
counting alone, without looking at a single node; and after that pods of all classes that ask for as much in the same zone are alike,
except for what a host may not hold twice, which is checked pod by pod. What finds no place this way is left to the general way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice, pairwise
from operator import add

import numpy as np

from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.host_counters import HostTallies
from plimsoll.scheduling.inter_pod_rules import Level, Rule
from plimsoll.scheduling.placement_order import Sized, sizes_of
from plimsoll.scheduling.plan_state import RowIndex
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.pod_groups import Numbers
from plimsoll.scheduling.topology import Counter, Mask, Topology
from plimsoll.scheduling.water_filling import levelled

ANYWHERE = -1

# Of the nodes with room, only the tightest are put in order, for rules about hosts seldom refuse half of them.
_ROWS_A_POD = 2
_SPARE_ROWS = 32

_NOBODY: Numbers = np.zeros(0, np.intp)


class Crowd:
    """The pods of one class that wait: first each of them gets a zone, then a row."""

    __slots__ = ("pods", "rows", "runs", "shapes", "view", "zones")

    def __init__(self, view: View) -> None:
        self.view = view
        self.runs: list[range] = []  # of groups
        self.pods: list[int] = []
        self.shapes: Numbers = _NOBODY  # by pod: the index of its shape
        self.zones: list[int] = []  # by pod, from the first on; those for which there is none are missing at the end
        self.rows: list[int] = []  # by pod; -1: none


class _Ways:
    """What placing one pod of a class asks and changes."""

    __slots__ = ("bumps", "checks", "view", "zonal_bumps")

    def __init__(self, view: View, tallies: HostTallies) -> None:
        self.view = view
        self.checks = tallies.checks(view)
        self.bumps = tallies.bumped(view)
        self.zonal_bumps = [counter for counter in view.bumps if not counter.topology.of_hosts]


class Bulk:
    def __init__(self, placer: Placer, crowds: Sequence[Crowd], shapes: Mapping[int, Sized]) -> None:
        self.placer = placer
        self.board = placer.board
        self.shapes = shapes  # by index
        self.sizes = sizes_of(shapes)
        self.zone = self._zone_topology(crowds)
        self._counted: dict[tuple[int, int], bool | None] = {}
        suited = [crowd for crowd in crowds if self._suits(crowd.view)]
        # All must agree on which nodes will do; those that agree with the first are one lot, the rest goes the general way.
        first = suited[0].view if suited else None
        self.lot = [crowd for crowd in suited if self._same_nodes(first, crowd.view)]
        if first is not None:
            static = first.static() & self.board.alive[: self.board.size]
            self.everywhere: RowIndex = static.nonzero()[0]
            self.rows = self._rows_by_zone(static)
            self._has_rows = [bool(len(rows)) for rows in self.rows]
            self.load = [0.0] * len(self.rows)  # what has been given to each zone, by the node
            self._a_node = [1.0 / max(1, len(rows)) for rows in self.rows]
        self._ways: list[_Ways] = []  # by pod of the lot that has a zone
        self._row_of: list[int] = []  # the same way

    # ── who can be placed this way ───────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _zone_topology(crowds: Sequence[Crowd]) -> Topology | None:
        """The one key, other than hosts, over which most of these pods are spread or held together."""
        votes: dict[str, int] = {}
        topologies: dict[str, Topology] = {}
        for crowd in crowds:
            for counter in crowd.view.counters:
                if not counter.topology.of_hosts:
                    topologies[counter.topology.key] = counter.topology
                    votes[counter.topology.key] = votes.get(counter.topology.key, 0) + len(crowd.pods)
        return topologies[max(votes, key=votes.__getitem__)] if votes else None

    def _suits(self, view: View) -> bool:
        if view.has_preferences or not view.uniform:
            return False
        if view.together is not None and any(counter.topology is not self.zone for counter in view.together.counters):
            return False
        crowding = 0
        for rule in view.rules:
            if rule.topology.each_row_its_own(self.board.size):
                continue
            if rule.topology is not self.zone or (rule.crowding and not isinstance(rule, Level)):
                return False
            crowding += rule.crowding
        zonal = [c for c in self.board.census.bumps(view.pod_class) if c.topology is self.zone]
        return crowding <= 1 and all(self._counts(c, view) is not None for c in zonal)

    def _counts(self, counter: Counter, view: View) -> bool | None:
        """Whether a counter counts pods on the nodes that the class may go to; None if it counts those on some of them."""
        watched = counter.watched
        if watched is None or watched.all_eligible:
            return True
        key = (id(watched), id(view.grounds))
        if key not in self._counted:
            eligible = watched.eligible[: self.board.size][view.static()]
            self._counted[key] = True if eligible.all() else None if eligible.any() else False
        return self._counted[key]

    @staticmethod
    def _same_nodes(first: View | None, view: View) -> bool:
        if first is None or view.grounds is first.grounds:
            return first is not None
        return view.lane_sets == first.lane_sets and bool((view.static() == first.static()).all())

    def _rows_by_zone(self, static: Mask) -> list[RowIndex]:
        if self.zone is None:
            return []
        domain = self.zone.domain[: self.board.size]
        return [(static & (domain == zone)).nonzero()[0] for zone in range(len(self.zone.values))]

    # ── zones, by counting ───────────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> None:
        """Give each pod of the lot a zone and then a row; in an order, crowd after crowd, that every rule agrees with."""
        self.board.census.make_room()
        for crowd in self.lot:
            self._choose_zones(crowd)
        self._choose_rows()
        for crowd in self.lot:
            self.placer.note_reliance(crowd.view)
        for crowd in self.lot:
            for zone, row in zip(crowd.zones, crowd.rows, strict=False) if -1 in crowd.rows else ():
                if row < 0 and zone != ANYWHERE:
                    # Others were given zones with this one counted in. Where it ends up is open: all must be looked at again.
                    self._count(crowd.view, [(zone, -1)])
                    self.board.relied_on_rows = -1

    def _choose_zones(self, crowd: Crowd) -> None:
        """One for each pod, as far as rules allow."""
        view = crowd.view
        view.foresee(foreseen=True)
        zonal = [rule for rule in view.asked() if rule.topology is self.zone]
        if self.zone is None or not (zonal or view.together):
            crowd.zones = [ANYWHERE] * len(crowd.pods)
            view.foresee(foreseen=False)
            return
        view.look_for_openable(self.shapes[int(crowd.shapes[0])].shape)
        level = next((rule for rule in zonal if rule.crowding), None)
        allowed = self._has_rows
        for rule in zonal:
            if rule is not level:
                allowed = [a and bool(b) for a, b in zip(allowed, rule.allowed_few(), strict=True)]
        allowed = self._with_company(view, allowed)
        crowd.zones = self._shares(level, allowed, len(crowd.pods), view)
        load, a_node = self.load, self._a_node
        for zone, size in zip(crowd.zones, self.sizes[crowd.shapes].tolist(), strict=False):
            load[zone] += size * a_node[zone]
        view.foresee(foreseen=False)

    def _with_company(self, view: View, allowed: list[bool]) -> list[bool]:
        if view.together is None:
            return allowed
        if view.together.first:  # the first decides for all: where least is planned so far
            common = self.placer.common_domains(view) or ()
            open_zones = [zone for zone, ok in enumerate(allowed) if ok and zone in common]
            chosen = min(open_zones, key=lambda zone: (self.load[zone], zone), default=-1)
            return [zone == chosen for zone in range(len(allowed))]
        for counter in view.together.counters:
            allowed = [a and count > 0 for a, count in zip(allowed, counter.by_tally(), strict=True)]
        return allowed

    def _shares(self, level: Rule | None, allowed: list[bool], pods: int, view: View) -> list[int]:
        """The zone of each pod, in an order in which no zone gets ahead; counts are brought up to date."""
        order = sorted((zone for zone, ok in enumerate(allowed) if ok), key=lambda zone: (self.load[zone], zone))
        if not order:
            return []
        if isinstance(level, Level):
            tally = level.counter.by_tally()
            counts = [tally[zone] for zone in order]
            shares = levelled(counts, pods, level.level_limit(allowed))
            rising_zones = list(zip(order, counts, map(add, counts, shares), strict=True))
            levels = range(min(counts), max(map(add, counts, shares)))
            zones = [zone for level in levels for zone, low, high in rising_zones if low <= level < high]
        else:
            zones = [*islice(cycle(order), pods)]
            shares = [-(-(pods - place) // len(order)) for place in range(len(order))]
        self._count(view, list(zip(order, shares, strict=True)))
        return zones

    def _count(self, view: View, pods_by_zone: list[tuple[int, int]]) -> None:
        for counter in view.bumps:
            if counter.topology is self.zone and self._counts(counter, view):
                counter.add_in_domains(pods_by_zone)

    # ── rows, shape by shape ─────────────────────────────────────────────────────────────────────────────────────────

    def _choose_rows(self) -> None:
        """Put pods of all crowds that ask for as much in the same zone together, the largest first, and find rows for them."""
        tallies = HostTallies(self.board.size)
        for crowd in self.lot:
            self._ways += [_Ways(crowd.view, tallies)] * len(crowd.zones)
        self._row_of = [-1] * len(self._ways)
        ordered = sorted(self.shapes, key=lambda index: (-self.shapes[index].size, self.shapes[index].shape))
        rank = np.zeros(1 + max(ordered), np.int64)
        rank[ordered] = np.arange(len(ordered))
        zones = np.array(list(chain.from_iterable([crowd.zones for crowd in self.lot])), np.int64)
        ranks = rank[np.concatenate([crowd.shapes[: len(crowd.zones)] for crowd in self.lot])]
        # Within a shape, those that may go anywhere come last.
        lots = ranks * (len(self.rows) + 1) + (len(self.rows) - 1 - zones)
        order = lots.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(lots[order], prepend=-1)).tolist()
        pods: list[int] = order.tolist()
        for start, stop in pairwise([*starts, len(pods)]):
            shape, zone = self.shapes[ordered[ranks[pods[start]]]].shape, int(zones[pods[start]])
            rows = self.everywhere if zone == ANYWHERE else self.rows[zone]
            self._fill(shape, pods[start:stop], rows, anywhere=zone == ANYWHERE)
        tallies.put_back()
        start = 0
        for crowd in self.lot:
            stop = start + len(crowd.zones)
            crowd.rows = self._row_of[start:stop] + [-1] * (len(crowd.pods) - len(crowd.zones))
            start = stop

    def _fill(self, shape: Shape, pods: list[int], rows: RowIndex, *, anywhere: bool) -> None:
        """Put one pod on each of the tightest rows that hold it, again and again, with larger nodes once none does."""
        first_new = int(rows.searchsorted(self.board.first_new))
        existing, new = rows[:first_new], rows[first_new:]
        for part in (existing, new):
            while pods and len(part):
                fits = self._fits(shape, part)
                left = self._fill_once(shape, pods, self._tightest(part[fits], len(pods)), anywhere=anywhere)
                if len(left) == len(pods):
                    left = self._fill_once(shape, pods, self._tightest(part[fits]), anywhere=anywhere)
                stuck = len(left) == len(pods)
                pods = left
                if stuck and (part is existing or not self._grow(self._ways[pods[0]].view, shape, part[~fits])):
                    break

    def _fits(self, shape: Shape, rows: RowIndex) -> Mask:
        free = self.board.free
        (resource, amount), *others = shape  # a place among the node's pods, at least
        fits: Mask = free[resource].take(rows) >= amount
        for resource, amount in others:
            fits &= free[resource].take(rows) >= amount
        return fits

    def _tightest(self, rows: RowIndex, pods: int | None = None) -> list[int]:
        """The rows by how little is left on them; with `pods`, as many as these could need, which is much sooner put in order."""
        slack = self.board.slack.take(rows)
        enough = len(rows) if pods is None else _ROWS_A_POD * pods + _SPARE_ROWS
        if len(rows) > 2 * enough:
            tight = slack <= np.partition(slack, enough)[enough]
            rows, slack = rows[tight], slack[tight]
        ordered: list[int] = rows[slack.argsort(kind="stable")].tolist()
        return ordered

    def _grow(self, view: View, shape: Shape, rows: RowIndex) -> bool:
        return bool(len(rows)) and self.placer.grower.climb(view, shape, rows)

    def _fill_once(self, shape: Shape, pods: list[int], waiting: list[int], *, anywhere: bool) -> list[int]:
        """Put pods on rows, which wait in this order for one each; returns those that none of them would have."""
        left: list[int] = []
        taken: list[int] = []
        ways, row_of = self._ways, self._row_of
        for index, pod in enumerate(pods):
            if not waiting:
                left += pods[index:]
                break
            way = ways[pod]
            for row in waiting:  # thousands of times: in place, without a call
                for tally, most, from_low, kept in way.checks:
                    if tally.count[row] > (most + tally.low if from_low else most) and (
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
            for tally in way.bumps:
                if tally.eligible is None or tally.eligible[row]:
                    before = tally.count[row]
                    tally.count[row] = before + 1
                    if before == tally.low:
                        tally.at_low -= 1
                        if not tally.at_low:
                            tally.find_low()
            if anywhere:
                for counter in way.zonal_bumps:
                    counter.add_one(row)
        if taken:
            self.board.take(shape, np.array(taken))
        return left
