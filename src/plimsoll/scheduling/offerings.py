"""The offerings of all templates, in lanes and in price order. Used by `plan_state` and `node_sizing`.

A *lane* is the set of offerings of one template whose nodes would be in the same domain of every topology key that
matters. A new node is opened in a lane, so rules about zones can be evaluated before its instance type is known. Within
its lane a new node keeps the set of offerings that still admit all of its pods (a bit set); the cheapest that is large
enough is chosen at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.model import NodeOffering, Template
from plimsoll.scheduling.node_equivalence import NodeTraits
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.pod_requests import allocatable_column

Ints = NDArray[np.int64]


class Lane:
    """Offerings of one template that are equal to every topology rule, cheapest first."""

    def __init__(
        self, template: int, domains: dict[str, str | None], members: Ints, caps: Ints, prices: NDArray[np.float64]
    ) -> None:
        self.template = template
        self.domains = domains  # topology key → value
        self.members = members  # indexes of offerings, in price order; bit i of a set is member i
        self.caps = np.ascontiguousarray(caps[:, members])  # resource × member, DaemonSet pods subtracted
        self.prices = prices[members]
        self.remaining: int | None = None  # how many nodes are available; set for a single, limited offering only
        self.everything = (1 << len(members)) - 1
        self.nodes_opened = 0
        # By resource: the sizes that occur, and for each the set of members at least as large, computed on demand.
        self._steps: dict[int, tuple[list[int], list[int | None]]] = {}
        self._holding_one: dict[tuple[Shape, int], int] = {}

    def learn_from(self, twin: Lane) -> None:
        """Share the cache of another lane whose members have the same sizes: zones mostly offer the same types."""
        self._steps, self._holding_one = twin._steps, twin._holding_one

    def holding(self, amounts: Iterable[tuple[int, int]], among: int) -> int:
        """Return the members of `among` that hold these amounts of each resource."""
        for resource, amount in amounts:
            if amount <= 0:
                continue
            sizes, sets = self._steps.get(resource) or self._make_steps(resource)
            position = bisect_left(sizes, amount)
            if position == len(sizes):
                return 0
            large = sets[position]
            if large is None:
                large = sets[position] = as_set(self.caps[resource] >= sizes[position])
            among &= large
            if not among:
                return 0
        return among

    def holding_one(self, shape: Shape, among: int) -> int:
        """Return the members of `among` that hold one pod on an empty node. Cached by shape."""
        key = (shape, among)
        found = self._holding_one.get(key)
        if found is None:
            found = self._holding_one[key] = self.holding(shape, among)
        return found

    def member(self, offering: int) -> int:
        """Return the index of an offering among the members."""
        return int(np.flatnonzero(self.members == offering)[0])

    def _make_steps(self, resource: int) -> tuple[list[int], list[int | None]]:
        sizes: list[int] = sorted(set(self.caps[resource].tolist()))
        steps: tuple[list[int], list[int | None]] = (sizes, [None] * len(sizes))
        self._steps[resource] = steps
        return steps


def cheapest(members: int) -> int:
    """Return the first member of a set: members are numbered in price order."""
    return (members & -members).bit_length() - 1


def as_set(members: NDArray[np.bool_]) -> int:
    """Convert a mask over members to a bit set."""
    return int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little")


def listed(members: int) -> list[int]:
    in_bytes = np.frombuffer(members.to_bytes(-(-members.bit_length() // 8), "little"), np.uint8)
    found: list[int] = np.unpackbits(in_bytes, bitorder="little").nonzero()[0].tolist()
    return found


class Offerings:
    """All offerings, their lanes, and how many nodes each template may still add."""

    def __init__(
        self,
        templates: Sequence[Template],
        lane_keys: Sequence[str],
        resource: Callable[[str], int],
    ) -> None:
        self.templates = templates
        self.exhausted = 0  # changes when a lane runs out of nodes or becomes available again
        self.nodes_left = [template.max_nodes for template in templates]
        # By offering: the offering, its template, and the traits of the node.
        self.sold: list[NodeOffering] = []
        self.template_of: list[int] = []
        self.node_traits: list[NodeTraits] = []
        self.lanes: list[Lane] = []
        self._lane_keys = tuple(lane_keys)
        for index, template in enumerate(templates):
            own, taints = template.labels, template.taints
            self.sold += template.offerings
            self.template_of += [index] * len(template.offerings)
            self.node_traits += [
                NodeTraits("", {**own, **offering.labels} if own else offering.labels, taints, unschedulable=False)
                for offering in template.offerings
            ]
        self.prices = [offering.price for offering in self.sold]
        self.caps: Ints = self._make_caps(resource)

    def _make_caps(self, resource: Callable[[str], int]) -> Ints:
        """By resource and offering: the amounts. Zones and capacity types of an instance type often share one mapping."""
        given = [offering.allocatable for offering in self.sold]
        which = list(map(id, given))
        distinct = dict(zip(which, given, strict=True))
        sizes = list(distinct.values())
        alike: dict[tuple[str, ...], list[int]] = {}  # columns by their resources, which are mostly the same
        for column, names in enumerate(map(tuple, sizes)):
            alike.setdefault(names, []).append(column)
        indexes = {names: [resource(name) for name in names] for names in alike}
        caps = np.zeros((1 + max(map(max, filter(None, indexes.values())), default=-1), len(sizes)), np.int64)
        for names, columns in alike.items():
            for index, name in zip(indexes[names], names, strict=True):
                caps[index, columns] = allocatable_column(name, [sizes[column][name] for column in columns])
        column_of = dict(zip(distinct, range(len(sizes)), strict=True))
        return caps[:, list(map(column_of.__getitem__, which))]

    def make_lanes(self) -> None:
        """Build the lanes. Called after DaemonSet pods were subtracted from `caps` and every resource has its row."""
        if not self.sold:
            return
        for_sale = [index for index, offering in enumerate(self.sold) if offering.available != 0]
        # A limited offering forms a lane of its own: a node in that lane cannot become another offering.
        piece = [None if self.sold[index].available is None else index for index in for_sale]
        labels = [[self.node_traits[index].labels.get(key) for index in for_sale] for key in self._lane_keys]
        template = [self.template_of[index] for index in for_sale]
        number_of: dict[tuple[object, ...], int] = {}
        lane_of = np.array(
            [number_of.setdefault(key, len(number_of)) for key in zip(template, piece, *labels, strict=True)], np.intp
        )
        prices, at = np.array(self.prices, np.float64), np.array(for_sale, np.int64)
        order = np.lexsort((-self.caps.sum(axis=0)[at], prices[at], lane_of))  # larger for the same price first
        ends = np.cumsum(np.bincount(lane_of, minlength=len(number_of)))
        alike: dict[bytes, Lane] = {}
        for (template_index, _, *values), members in zip(number_of, np.split(at[order], ends[:-1]), strict=False):
            domains: dict[str, Any] = dict(zip(self._lane_keys, values, strict=True))
            lane = Lane(template_index, domains, members, self.caps, prices)  # type: ignore[arg-type]
            lane.learn_from(alike.setdefault(lane.caps.tobytes(), lane))
            lane.remaining = self.sold[int(members[0])].available
            self.lanes.append(lane)

    def can_open(self, lane: Lane) -> int:
        """Return how many more nodes may be opened in a lane."""
        left, remaining = self.nodes_left[lane.template], lane.remaining
        if left is None:
            return 2**31 if remaining is None else remaining
        return left if remaining is None else min(left, remaining)

    def opened(self, lane: Lane, nodes: int) -> None:
        """Record `nodes` more planned nodes in a lane; fewer, if negative."""
        left = self.nodes_left[lane.template]
        if left is not None:
            self.nodes_left[lane.template] = left - nodes
        if lane.remaining is not None:
            lane.remaining -= nodes
        lane.nodes_opened += nodes
        if not self.can_open(lane) or nodes < 0:
            self.exhausted += 1


class Ladder:
    """Offerings of a lane, each at least as large in every resource as the previous one and more expensive."""

    def __init__(self, lane: Lane, members: int) -> None:
        everything = members == lane.everything
        among = np.arange(len(lane.members)) if everything else np.array(listed(members), np.intp)
        caps = lane.caps if everything else lane.caps[:, among]
        steps = np.diff(caps, axis=1)
        self.complete = True  # whether every size of the lane is a rung
        if (steps >= 0).all():  # the common case
            rungs = among[np.concatenate(([True], (steps > 0).any(axis=0)))[: len(among)]]
        else:
            rungs = among[self._climbed(list(zip(*caps.tolist(), strict=True)))]
        self._lane = lane
        self._members = members
        self._holding: dict[int, int] = {}
        self.members = rungs
        self.caps: Ints = np.ascontiguousarray(lane.caps[:, rungs])
        self.prices: NDArray[np.float64] = lane.prices[rungs]

    def _climbed(self, sizes: list[tuple[int, ...]]) -> list[int]:
        """Return which of the sizes, in order, are rungs."""
        rungs: list[int] = []
        for number, size in enumerate(sizes):
            below = sizes[rungs[-1]] if rungs else ()
            if size != below and all(map(le, below, size)):
                rungs.append(number)
            elif size != below:
                self.complete = False
        return rungs

    def rungs_from(self, member: int) -> NDArray[np.intp]:
        """Return the rungs of the ladder that starts at this member."""
        if self.complete:
            return self.members[self.members.searchsorted(member) :]
        no_smaller = self._lane.holding(enumerate(self._lane.caps[:, member].tolist()), self._members)
        return Ladder(self._lane, no_smaller).members

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
        """Return the members that hold what needs this rung, if the ladder is complete."""
        found = self._holding.get(rung)
        if found is None:
            found = self._holding[rung] = self._lane.holding(enumerate(self.caps[:, rung].tolist()), self._members)
        return found
