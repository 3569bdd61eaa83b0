"""Placing thousands of diverse pods: first zones by counting, then nodes shape by shape.

Pods of a hundred classes and thirty shapes are three thousand groups of one or two pods each: to ask every rule for every group
would cost more than all the rest. But where no rule but those about zones and hosts has a say, zones can be decided class by class by
counting alone, without looking at a single node; and after that pods of all classes that ask for as much in the same zone are alike,
except for what a host may not hold twice, which is checked pod by pod. What finds no place this way is left to the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import TypeAlias

import numpy as np

from plimsoll.scheduling.board import RowIndex
from plimsoll.scheduling.classes import Shape
from plimsoll.scheduling.levels import levelled
from plimsoll.scheduling.neighbours import PLENTY, Level, Rule
from plimsoll.scheduling.placing import Placer
from plimsoll.scheduling.tallies import HostTallies, first_allowed
from plimsoll.scheduling.topology import Counter, Mask, Topology
from plimsoll.scheduling.views import View

ANYWHERE = -1

# Of the nodes with room, only the tightest are put in order, for rules about hosts seldom refuse half of them.
_ROWS_A_POD = 2
_SPARE_ROWS = 32


class Item:
    """A group of pods that wait: first each of them gets a zone, then a row."""

    __slots__ = ("group", "positions", "rows", "shape", "size", "view", "zones")

    def __init__(self, group: int, view: View, shape: Shape, positions: list[int], size: float) -> None:
        self.group = group  # its index
        self.view = view
        self.shape = shape
        self.positions = positions  # of its pods that wait
        self.size = size
        self.zones: list[int] = []  # by pod
        self.rows = [-1] * len(positions)


class _Ways:
    """What placing one pod of a class asks and changes."""

    __slots__ = ("bumps", "checks", "view", "zonal_bumps")

    def __init__(self, view: View, tallies: HostTallies) -> None:
        self.view = view
        self.checks = tallies.checks(view)
        self.bumps = tallies.bumped(view)
        self.zonal_bumps = [counter for counter in view.bumps if not counter.topology.of_hosts]


_Pod: TypeAlias = tuple[Item, int, _Ways]  # and its number within the item


class Bulk:
    def __init__(self, placer: Placer, items: Sequence[Item]) -> None:
        self.placer = placer
        self.board = placer.board
        self.zone = self._zone_topology(items)
        self._counted: dict[tuple[int, int], bool | None] = {}
        views = {id(item.view): item.view for item in items}
        suited = {key for key, view in views.items() if self._suits(view)}
        # All must agree on which nodes will do; those that agree with the first are one lot, the rest goes the general way.
        first = next((item.view for item in items if id(item.view) in suited), None)
        self.lot = [item for item in items if id(item.view) in suited and self._same_nodes(first, item.view)]
        if first is not None:
            static = first.static() & self.board.alive[: self.board.size]
            self.everywhere: RowIndex = static.nonzero()[0]
            self.rows = self._rows_by_zone(static)
            self.load = [0.0] * len(self.rows)  # what has been given to each zone, by the node
            self._a_node = [1.0 / max(1, len(rows)) for rows in self.rows]

    # ── who can be placed this way ───────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _zone_topology(items: Sequence[Item]) -> Topology | None:
        """The one key, other than hosts, over which most of these pods are spread or held together."""
        pods: dict[View, int] = {}
        for item in items:
            pods[item.view] = pods.get(item.view, 0) + len(item.positions)
        votes: dict[str, int] = {}
        topologies: dict[str, Topology] = {}
        for view, number in pods.items():
            for counter in view.counters:
                if not counter.topology.of_hosts:
                    topologies[counter.topology.key] = counter.topology
                    votes[counter.topology.key] = votes.get(counter.topology.key, 0) + number
        return topologies[max(votes, key=votes.__getitem__)] if votes else None

    def _suits(self, view: View) -> bool:
        if view.has_preferences or not view.uniform:
            return False
        if view.together is not None and any(counter.topology is not self.zone for counter in view.together.counters):
            return False
        crowding = 0
        for rule in view.rules:
            if self._on_hosts(rule):
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

    def _on_hosts(self, rule: Rule) -> bool:
        return rule.topology.of_hosts and rule.topology.private_rows >= self.board.size

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

    def place(self) -> list[Item]:
        """Give each pod of the lot a zone and then a row; the groups in an order that every rule agrees with."""
        self.board.census.make_room()
        by_class: dict[int, list[Item]] = {}
        for item in self.lot:
            by_class.setdefault(item.view.pod_class.index, []).append(item)
        for items in by_class.values():
            self._choose_zones(items)
        self._choose_rows()
        for items in by_class.values():
            self.placer.note_reliance(items[0].view)
        placed = [item for items in by_class.values() for item in items]
        for item in placed:
            for zone, row in zip(item.zones, item.rows, strict=False) if -1 in item.rows else ():
                if row < 0 and zone != ANYWHERE:
                    # Others were given zones with this one counted in. Where it ends up is open: all must be looked at again.
                    self._count(item.view, zone, -1)
                    self.board.relied_on_rows = -1
        return placed

    def _choose_zones(self, items: list[Item]) -> None:
        """One for each pod, as far as rules allow."""
        view = items[0].view
        view.foresee(foreseen=True)
        zonal = [rule for rule in view.asked() if rule.topology is self.zone]
        if self.zone is None or not (zonal or view.together):
            for item in items:
                item.zones = [ANYWHERE] * len(item.positions)
            view.foresee(foreseen=False)
            return
        view.look_for_openable(items[0].shape)
        level = next((rule for rule in zonal if rule.crowding), None)
        allowed = [bool(len(rows)) for rows in self.rows]
        for rule in zonal:
            if rule is not level:
                allowed = [a and bool(b) for a, b in zip(allowed, rule.allowed_few(), strict=True)]
        allowed = self._with_company(view, allowed)
        zones = self._shares(level, allowed, sum(len(item.positions) for item in items), view)
        start = 0
        for item in items:
            item.zones = zones[start : start + len(item.positions)]
            start += len(item.positions)
            for zone in item.zones:
                self.load[zone] += item.size * self._a_node[zone]
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
            rising = np.array(allowed)
            counts = [tally[zone] for zone in order]
            shares = levelled(counts, [PLENTY] * len(order), pods, level.level_limit(rising))
            rising_zones = list(zip(order, counts, map(add, counts, shares), strict=True))
            levels = range(min(counts), max(map(add, counts, shares)))
            zones = [zone for level in levels for zone, low, high in rising_zones if low <= level < high]
        else:
            zones = [order[i % len(order)] for i in range(pods)]
        for zone in order:
            self._count(view, zone, zones.count(zone))
        return zones

    def _count(self, view: View, zone: int, pods: int) -> None:
        if pods and zone != ANYWHERE:
            for counter in self._zonal_bumps(view):
                counter.add_in_domain(zone, pods)

    def _zonal_bumps(self, view: View) -> list[Counter]:
        bumps = self.board.census.bumps(view.pod_class)
        return [c for c in bumps if c.topology is self.zone and self._counts(c, view)]

    # ── rows, shape by shape ─────────────────────────────────────────────────────────────────────────────────────────

    def _choose_rows(self) -> None:
        tallies = HostTallies(self.board.size)
        ways: dict[int, _Ways] = {}
        batches: dict[tuple[float, Shape], dict[int, list[_Pod]]] = {}
        for item in self.lot:
            key = item.view.pod_class.index
            way = ways.get(key)
            if way is None:
                way = ways[key] = _Ways(item.view, tallies)
            batch = batches.setdefault((-item.size, item.shape), {})
            for number, zone in enumerate(item.zones):
                if zone in batch:
                    batch[zone].append((item, number, way))
                else:
                    batch[zone] = [(item, number, way)]
        for (_, shape), zones in sorted(batches.items(), key=lambda batch: batch[0]):
            for zone, pods in sorted(zones.items(), reverse=True):  # those that may go anywhere come last
                rows = self.everywhere if zone == ANYWHERE else self.rows[zone]
                self._fill(shape, pods, rows, anywhere=zone == ANYWHERE)
        tallies.put_back()

    def _fill(self, shape: Shape, pods: list[_Pod], rows: RowIndex, *, anywhere: bool) -> None:
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
                if stuck and (part is existing or not self._grow(pods[0][0].view, shape, part[~fits])):
                    break

    def _fits(self, shape: Shape, rows: RowIndex) -> Mask:
        free = self.board.free
        fits: Mask = np.ones(len(rows), np.bool_)
        for resource, amount in shape:
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

    def _fill_once(self, shape: Shape, pods: list[_Pod], waiting: list[int], *, anywhere: bool) -> list[_Pod]:
        """Put pods on rows, which wait in this order for one each; returns those that none of them would have."""
        left: list[_Pod] = []
        taken: list[int] = []
        for index, pod in enumerate(pods):
            item, number, way = pod
            position = first_allowed(way.checks, waiting) if way.checks or not waiting else 0
            if position < 0:
                left.append(pod)
                if not waiting:
                    left += pods[index + 1 :]
                    break
                continue
            row = waiting.pop(position)
            item.rows[number] = row
            taken.append(row)
            for tally in way.bumps:
                tally.add(row)
            if anywhere:
                for counter in way.zonal_bumps:
                    counter.add_one(row)
        if taken:
            self.board.take(shape, np.array(taken))
        return left
