"""What can be bought: the offerings of all templates, in lanes and in price order.

A *lane* is the offerings of one template whose nodes would be in the same domain of every topology key that matters: a new node is
opened in a lane, so rules about zones can be answered before its instance type is known. Within its lane a new node keeps the set
of offerings that still admit all of its pods (a bit set); the cheapest that is large enough is chosen at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import le
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types import Labels, Taint
from plimsoll.scheduling.classes import Shape
from plimsoll.scheduling.model import Offering, Template
from plimsoll.scheduling.requests import allocatable

Ints = NDArray[np.int64]


class Sold(NamedTuple):
    """One offering as a node of its template would have it."""

    template: int
    offering: Offering
    labels: Labels
    taints: tuple[Taint, ...]


class Lane:
    """Offerings of one template that look alike to every topology rule, cheapest first."""

    def __init__(
        self, template: int, domains: dict[str, str | None], members: list[int], caps: Ints, prices: Sequence[float]
    ) -> None:
        self.template = template
        self.domains = domains  # topology key → value
        self.members = np.array(members)  # indexes of offerings, in price order; bit i of a set is member i
        self.caps = np.ascontiguousarray(caps[:, self.members])  # resource × member, daemons taken off
        self.prices = np.array([prices[member] for member in members])
        self.remaining: int | None = None  # how many nodes can still be had; known for a single, limited offering only
        self.everything = (1 << len(members)) - 1
        self.nodes_opened = 0
        self.steps: dict[int, tuple[list[int], list[int]]] = {}  # by resource; shared with lanes of the same sizes
        self._holding_one: dict[tuple[Shape, int], int] = {}

    def holding(self, amounts: Iterable[tuple[int, int]], among: int) -> int:
        """The members of `among` that hold these amounts of each resource."""
        for resource, amount in amounts:
            if amount <= 0:
                continue
            sizes, sets = self.steps.get(resource) or self._make_steps(resource)
            position = bisect_left(sizes, amount)
            among &= sets[position] if position < len(sets) else 0
            if not among:
                return 0
        return among

    def holding_one(self, shape: Shape, among: int) -> int:
        """The members of `among` that hold one pod on an empty node; asked again and again for the same shapes."""
        key = (shape, among)
        found = self._holding_one.get(key)
        if found is None:
            found = self._holding_one[key] = self.holding(shape, among)
        return found

    def _make_steps(self, resource: int) -> tuple[list[int], list[int]]:
        """For each size that occurs, the set of members at least as large."""
        caps = self.caps[resource].tolist()
        sizes = sorted(set(caps))
        sets, larger = [], 0
        members = sorted(range(len(caps)), key=caps.__getitem__, reverse=True)
        position = 0
        for size in reversed(sizes):
            while position < len(members) and caps[members[position]] >= size:
                larger |= 1 << members[position]
                position += 1
            sets.append(larger)
        self.steps[resource] = steps = (sizes, sets[::-1])
        return steps


def cheapest(members: int) -> int:
    """The first member of a set: members are numbered in price order."""
    return (members & -members).bit_length() - 1


def listed(members: int) -> list[int]:
    found = []
    while members:
        low = members & -members
        found.append(low.bit_length() - 1)
        members ^= low
    return found


class Offerings:
    """All offerings, the lanes they form, and how many nodes each template may still make."""

    def __init__(
        self,
        templates: Sequence[Template],
        lane_keys: Sequence[str],
        resource: Callable[[str], int],
    ) -> None:
        self.templates = templates
        self.exhausted = 0  # changes when a lane can, or can again, make no more nodes
        self.nodes_left = [template.max_nodes for template in templates]
        self.sold: list[Sold] = []
        self.lanes: list[Lane] = []
        self._lane_keys = tuple(lane_keys)
        for index, template in enumerate(templates):
            own, taints = template.labels, template.taints
            for offering in template.offerings:
                labels = {**own, **offering.labels} if own else offering.labels
                self.sold.append(Sold(index, offering, labels, taints))
        self.prices = [s.offering.price for s in self.sold]
        self.caps: Ints = self._make_caps(resource)

    def _make_caps(self, resource: Callable[[str], int]) -> Ints:
        """What each offering has of each resource. Zones and capacity types of an instance type often share one mapping."""
        column_of: dict[int, int] = {}
        sizes: list[list[tuple[int, int]]] = []
        columns: list[int] = []
        for sold in self.sold:
            given = sold.offering.allocatable
            column = column_of.get(id(given))
            if column is None:
                column = column_of[id(given)] = len(sizes)
                sizes.append([(resource(name), amount) for name, amount in allocatable(given).items()])
            columns.append(column)
        caps = np.zeros((1 + max((r for size in sizes for r, _ in size), default=-1), len(sizes)), np.int64)
        for column, size in enumerate(sizes):
            for r, amount in size:
                caps[r, column] = amount
        return caps[:, columns]

    def make_lanes(self) -> None:
        """Called once daemons have been taken off `caps` and every resource has its row."""
        groups: dict[tuple[object, ...], list[int]] = {}
        alike: dict[bytes, Lane] = {}
        lane_keys = self._lane_keys
        for index, sold in enumerate(self.sold):
            if sold.offering.available == 0:
                continue
            # What is limited is bought by the piece: a node in such a lane is that offering and no other.
            piece = None if sold.offering.available is None else index
            get = sold.labels.get
            key: tuple[object, ...] = (sold.template, piece, *[get(name) for name in lane_keys])
            if key in groups:
                groups[key].append(index)
            else:
                groups[key] = [index]
        prices, sums = np.array(self.prices), self.caps.sum(axis=0)
        for key, group in groups.items():
            at = np.array(group)
            members: list[int] = at[np.lexsort((-sums[at], prices[at]))].tolist()  # more for the same money first
            lane = Lane(
                self.sold[members[0]].template,
                dict(zip(lane_keys, key[2:], strict=True)),  # type: ignore[arg-type]
                members,
                self.caps,
                self.prices,
            )
            lane.steps = alike.setdefault(lane.caps.tobytes(), lane).steps  # zones mostly sell the same sizes
            lane.remaining = self.sold[members[0]].offering.available
            self.lanes.append(lane)

    def can_open(self, lane: Lane) -> int:
        """How many more nodes may be made in a lane."""
        left = self.nodes_left[lane.template]
        limits = [limit for limit in (left, lane.remaining) if limit is not None]
        return min(limits) if limits else 2**31

    def opened(self, lane: Lane, nodes: int) -> None:
        left = self.nodes_left[lane.template]
        if left is not None:
            self.nodes_left[lane.template] = left - nodes
        if lane.remaining is not None:
            lane.remaining -= nodes
        lane.nodes_opened += nodes
        if not self.can_open(lane) or nodes < 0:
            self.exhausted += 1


class Ladder:
    """Offerings of a lane, each at least as large in every resource as the one before it and dearer."""

    def __init__(self, lane: Lane, members: int) -> None:
        rungs: list[int] = []
        sizes: list[tuple[int, ...]] = list(zip(*lane.caps.tolist(), strict=True))
        self.complete = True  # whether there is no size beside it
        for member in listed(members):
            if not rungs or self._larger(sizes[rungs[-1]], sizes[member]):
                rungs.append(member)
            elif sizes[rungs[-1]] != sizes[member]:
                self.complete = False
        self._lane = lane
        self._members = members
        self._holding: dict[int, int] = {}
        self.members = np.array(rungs)
        self.caps: Ints = np.ascontiguousarray(lane.caps[:, rungs])
        self.prices: NDArray[np.float64] = lane.prices[rungs]

    @staticmethod
    def _larger(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return one != other and all(map(le, one, other))

    def rung_for(self, amounts: Ints) -> NDArray[np.intp]:
        """By column of `amounts` (resource × node): the lowest rung that holds it; the number of rungs if none does."""
        needed = np.zeros(amounts.shape[1], np.intp)
        for resource in range(amounts.shape[0]):
            wanted = amounts[resource]
            if wanted.any():
                rung = np.searchsorted(self.caps[resource], wanted)
                np.maximum(needed, np.where(wanted > 0, rung, 0), out=needed)
        return needed

    def holding(self, rung: int) -> int:
        """The members that hold what needs this rung, if the ladder is complete."""
        found = self._holding.get(rung)
        if found is None:
            found = self._holding[rung] = self._lane.holding(enumerate(self.caps[:, rung].tolist()), self._members)
        return found
