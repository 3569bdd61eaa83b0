"""The fewest values to rewrite so that every scale-down deletes from the fullest zone.

Kubernetes deletes ready pods in ascending order of values. A pod that is deleted while n of its zone are left (itself included)
is the zone's n-th. Zones stay as even as deletion can keep them exactly if the n-th pods of all zones are deleted before any
zone loses its (n-1)-th. So the values below the ceiling fall into *levels*, and each zone has one pod on each of its levels:

    zone a   2147483647   2147483646   2147483645
    zone b   2147483647   2147483646
             └ level 1 ┘  └ level 2 ┘  └ level 3 ┘

A level may hold several values, as long as levels do not overlap: between zones with equal values Kubernetes decides by
criteria that change with time, so nothing may depend on them. Within a zone values are distinct, as the first assignment
makes them. Foreign values stay as they are and count for their zone. The guarantee is
that each pod *of ours* is deleted from the zone that is, at that moment, the fullest of those with pods of ours left.

The problem is where to draw the lines between levels so that most pods already stand on a level that their zone needs:
a shortest path from the ceiling down, where each step takes in one level and costs one for each pod that must be moved onto
it. It is the least for ReplicaSets whose values are all ours and distinct in each zone; with foreign values among them it is
correct, and mostly the least.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

# After this many steps (a quarter of a second) the search becomes greedy: its result is correct, but not proven to be the least.
# A ReplicaSet of 1,000 pods that lost half of a zone needs a third of them.
PATIENCE_STEPS = 10_000


class ZoneValues(Struct, frozen=True):
    """The values that decide about the ready pods of one ReplicaSet in one zone."""

    ours: Mapping[str, int]  # by pod UID
    fixed: tuple[int, ...] = ()  # foreign values


def fewest_rewrites(zones: Mapping[str, ZoneValues], ceiling: int) -> dict[str, int]:
    """New values, by pod UID, for as few pods as possible; empty if the order is even, or if the ceiling leaves too few values.

    All of our values lie between 0 and the ceiling. The pods that are deleted first come first.
    """
    if even(zones):
        return {}
    pods: list[list[str]] = []
    ladder: list[_Zone] = []
    for zone in zones.values():
        if zone.ours:  # zones without pods of ours do not matter
            pods.append(sorted(zone.ours, key=lambda uid: (-zone.ours[uid], uid)))
            ours = tuple(ceiling - zone.ours[uid] + 1 for uid in pods[-1])
            ladder.append(_Zone(ours, tuple(sorted(ceiling - value + 1 for value in zone.fixed))))
    lines = _search(tuple(ladder), ceiling + 1)
    if lines is None:
        return {}
    moves: list[tuple[int, str, int]] = []
    for uids, place in zip(pods, ladder, strict=True):
        moved, vacant = _moves(place, lines)
        moves += [(place.ours[at], uids[at], ceiling - to + 1) for at, to in zip(moved, vacant, strict=True)]
    return {uid: value for _, uid, value in sorted(moves, key=lambda move: (-move[0], move[1]))}


def even(zones: Mapping[str, ZoneValues]) -> bool:
    """Whether every pod of ours is deleted from a fullest zone, however Kubernetes breaks ties between equal values."""
    by_value: dict[int, list[tuple[str, bool]]] = {}
    for name, zone in zones.items():
        for value in zone.ours.values():
            by_value.setdefault(value, []).append((name, True))
        for value in zone.fixed:
            by_value.setdefault(value, []).append((name, False))
    left = dict.fromkeys(zones, 0)  # pods that are still there when those of the value at hand are to go
    begun: set[str] = set()  # zones that have a pod of ours among them
    fullest_zone = ""
    fullest = second = 0  # of those zones; the second is the fullest but for that one
    for value in sorted(by_value, reverse=True):
        worst = {name: left[name] + 1 for name, is_ours in by_value[value] if is_ours}  # their zone's others went first
        begun.update(worst)
        for name, _ in by_value[value]:
            left[name] += 1
        for name in {name for name, _ in by_value[value]} & begun:
            if name == fullest_zone:
                fullest = left[name]
            elif left[name] > fullest:
                fullest_zone, fullest, second = name, left[name], fullest
            else:
                second = max(second, left[name])
        if any(count < (second if name == fullest_zone else fullest) for name, count in worst.items()):
            return False
    return True


class _Zone(NamedTuple):
    """The depths of a zone's pods, sorted: the ceiling is at 1, the value below it at 2, and so on."""

    ours: tuple[int, ...]
    fixed: tuple[int, ...]

    def placed(self, levels: int, start: int) -> int:
        """How many of ours stand above depth `start` if so many levels are complete there: fixed pods take their share."""
        above = bisect_left(self.fixed, start) if self.fixed else 0
        return min(max(levels - above, 0), len(self.ours))


class _Line(NamedTuple):
    """A line between levels: how many are above it, and the depth at which the next begins."""

    levels: int
    start: int


@lru_cache(maxsize=16)  # while rewrites wait for their turn, the same question comes with every change of a pod
def _search(zones: tuple[_Zone, ...], deepest: int) -> tuple[_Line, ...] | None:
    """The lines of the cheapest ladder, from the ceiling down to where order no longer matters; None if there is no room."""
    first = _Line(0, 1)
    paid = {first: 0}
    came_from: dict[_Line, _Line] = {}
    waiting = [(_at_least(zones, first), 0, first)]
    steps = 0
    while waiting:
        line = heapq.heappop(waiting)[-1]
        if _order_is_free(zones, line, deepest):
            return _trace(came_from, line)
        steps += 1
        if steps == PATIENCE_STEPS:
            waiting = [(minus_levels, estimate, waits) for estimate, minus_levels, waits in waiting]
            heapq.heapify(waiting)
        for following, price in _steps(zones, line, deepest):
            total = paid[line] + price
            if total < paid.get(following, total + 1):
                paid[following] = total
                came_from[following] = line
                estimate = total + _at_least(zones, following)
                urgency = (estimate, -following.levels) if steps < PATIENCE_STEPS else (-following.levels, estimate)
                heapq.heappush(waiting, (*urgency, following))
    return None


def _steps(zones: tuple[_Zone, ...], line: _Line, deepest: int) -> Iterator[tuple[_Line, int]]:
    """Where the next level may end, and how many pods must then be moved onto it.

    Only ends that change anything are tried: the nearest pod of each zone, ours or fixed, and the narrowest level.
    """
    levels, start = line
    ends = {start}
    needs: list[tuple[_Zone, int, int]] = []  # zone, pods placed, depth of its nearest pod of ours
    nobody_needs = True
    for zone in zones:
        stood = zone.placed(levels, start)
        wanted = zone.placed(levels + 1, start) > stood
        nobody_needs = nobody_needs and not wanted
        at = bisect_left(zone.ours, start)
        nearest = zone.ours[at] if at < len(zone.ours) else deepest + 1
        if wanted:
            ends.add(nearest)
        if zone.fixed and zone.fixed[-1] >= start:
            ends.add(zone.fixed[bisect_left(zone.fixed, start)])
        if wanted or zone.fixed:
            needs.append((zone, stood, nearest))
    if nobody_needs:
        ends.add(start - 1)  # the level takes no room
    for end in sorted(ends):
        if end > deepest:
            return
        price = 0
        for zone, stood, nearest in needs:
            change = zone.placed(levels + 1, end + 1) - stood
            if change < 0:
                return  # two fixed pods on one level: any later end has them, too
            price += change and nearest > end
        yield _Line(levels + 1, end + 1), price


def _at_least(zones: tuple[_Zone, ...], line: _Line) -> int:
    """Pods that must be moved in any case: a zone wants more of them below the line than it has there."""
    return sum(max(0, bisect_left(zone.ours, line.start) - zone.placed(*line)) for zone in zones)


def _order_is_free(zones: tuple[_Zone, ...], line: _Line, deepest: int) -> bool:
    """Below the line at most one zone has pods to place, has room for them, and no other gets fuller."""
    unfinished = [zone for zone in zones if zone.placed(*line) < len(zone.ours)]
    if len(unfinished) != 1:
        return not unfinished
    (last,) = unfinished
    room = deepest - line.start + 1 - len(last.fixed)
    return room >= len(last.ours) - last.placed(*line) and all(
        zone is last or not zone.fixed or zone.fixed[-1] < line.start for zone in zones
    )


def _trace(came_from: Mapping[_Line, _Line], line: _Line) -> tuple[_Line, ...]:
    path = [line]
    while path[-1] in came_from:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def _moves(zone: _Zone, lines: tuple[_Line, ...]) -> tuple[list[int], list[int]]:
    """Which pods of a zone leave their place, and the depths that they take, both from the top down."""
    stay: set[int] = set()
    vacant: list[int] = []
    for (levels, start), (_, beyond) in pairwise(lines):
        if zone.placed(levels + 1, beyond) == zone.placed(levels, start):
            continue
        at = bisect_left(zone.ours, start)
        if at < bisect_left(zone.ours, beyond):
            stay.add(at)
        else:
            vacant.append(start)
    below = lines[-1].start
    wanted = len(zone.ours) - zone.placed(*lines[-1])
    keep = range(bisect_left(zone.ours, below), len(zone.ours))[:wanted]
    stay.update(keep)
    taken = {*zone.fixed, *(zone.ours[at] for at in keep)}
    while wanted > len(keep):
        if below not in taken:
            vacant.append(below)
            wanted -= 1
        below += 1
    return [at for at in range(len(zone.ours)) if at not in stay], vacant
