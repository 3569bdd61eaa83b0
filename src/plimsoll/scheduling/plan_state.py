"""The state of one plan: nodes as rows, free amounts per row, and every counter that a rule reads.

A `PlanState` starts as a copy of the snapshot (which it never changes) followed by coming nodes; new nodes are appended
as they are opened. It places pods, opens nodes and keeps all counts consistent. Callers decide what to place where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.daemon_overhead import DaemonOverhead
from plimsoll.scheduling.model import HOSTNAME, ComingNode, Template
from plimsoll.scheduling.node_equivalence import NodeClasses, NodeTraits, static_keys
from plimsoll.scheduling.node_rows import node_rows
from plimsoll.scheduling.offerings import Ladder, Lane, Offerings, cheapest
from plimsoll.scheduling.pod_counters import PodCounters
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_requests import allocatable
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import NODES, Mask, Topology
from plimsoll.scheduling.volume_limits import attach_resources, free_attachments, learned_limits
from plimsoll.scheduling.volumes import VolumeRules, volume_rules

_MOST_LANES_FOR_SELECTORS = 8

Ints = NDArray[np.int64]
RowIndex = NDArray[np.intp]


class NodeOpening(NamedTuple):
    """New nodes with the same lane and offering."""

    lane: int
    members: int  # offerings they may become
    offering: int  # their initial offering
    nodes: int


class PlanState:
    def __init__(
        self,
        snapshot: Snapshot,
        in_play: Iterable[PodClass],
        templates: Sequence[Template] = (),
        coming: Sequence[ComingNode] = (),
        *,
        moving: bool = False,
        contended: Collection[tuple[str, str]] = (),
    ) -> None:
        """moving: the pods in play still run in the snapshot. contended: claims (namespace and name) of ReadWriteOncePod
        volumes that several pods in play use.
        """
        self.snapshot = snapshot
        self.classes = snapshot.classes
        self.in_play = tuple(in_play)
        self.volume_rules: dict[int, VolumeRules] = {
            c.index: volume_rules(snapshot, c, moving=moving, contended=contended) for c in self.in_play
        }
        self.daemons = DaemonOverhead(self.classes, templates, coming)
        self.pod_counters = PodCounters(snapshot, self.in_play, self.daemons.class_indexes)
        self.daemons.pod_counters = self.pod_counters

        rows = node_rows(snapshot)
        more = [
            NodeTraits(node.name, {HOSTNAME: node.name, **node.labels}, node.taints, unschedulable=False)
            for node in coming
        ]
        self.node_traits = [*rows.node_traits, *more] if more else rows.node_traits
        self.names = [*rows.names, *(place.name for place in more)]
        self.size = self.first_new = len(self.node_traits)  # rows in use; those from `first_new` on are nodes to add

        topology_keys = self.pod_counters.topology_keys
        rule_keys: set[str] = set()
        lane_keys = topology_keys - {HOSTNAME, NODES}
        for pod_class in self.in_play:
            keys = static_keys(pod_class, self.volume_rules[pod_class.index])
            rule_keys |= keys
            if any(s.honor_affinity for s in (*pod_class.spread, *pod_class.soft_spread)):
                lane_keys |= keys - {HOSTNAME}  # whether the spread counts a new node must be known when it is opened
        self.node_classes = NodeClasses(self.node_traits, rule_keys) if more else rows.node_classes(rule_keys)

        lane_keys |= _with_few_values(rule_keys - lane_keys - {HOSTNAME}, templates)
        self.offerings = Offerings(templates, sorted(lane_keys), self.classes.resource)
        self.daemons.take_off(self.offerings)
        self._limit_attachments()
        self.offerings.make_lanes()
        self.offering_classes = NodeClasses(self.offerings.node_traits, rule_keys)

        self._make_rows(rows.kept, coming)
        self.topologies = {key: self._make_topology(key) for key in sorted(topology_keys)}
        first_coming = len(rows.kept)
        on_coming = [(first_coming + position, index) for position, index in self.daemons.on_coming]
        self.pod_counters.take(
            topologies=self.topologies,
            node_classes=self.node_classes,
            offering_classes=self.offering_classes,
            state_rows=rows.state_rows,
            size=self.size,
            more=on_coming,
        )

    def _limit_attachments(self) -> None:
        """Give offerings the attach limits of existing nodes."""
        labels = [traits.labels for traits in self.offerings.node_traits]
        for index, driver in attach_resources(self.classes).items():
            if labels:
                self.offerings.caps[index] = learned_limits(self.snapshot, driver, labels)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_rows(self, kept: RowIndex, coming: Sequence[ComingNode]) -> None:
        sizes = [allocatable(node.allocatable) for node in coming]
        for size in sizes:
            for name in size:
                self.classes.resource(name)
        resources = len(self.classes.resources)
        self.capacity_rows = max(64, 2 * self.size)
        self.free: Ints = np.zeros((resources, self.capacity_rows), np.int64)
        known = self.snapshot.capacity.shape[0]
        count = len(kept)
        self.free[:known, :count] = self.snapshot.capacity[:, kept] - self.snapshot.used[:, kept]
        for row, (node, size) in enumerate(zip(coming, sizes, strict=True), start=count):
            for name, amount in size.items():
                self.free[self.classes.resource(name), row] = amount
            self.daemons.take_off_coming(self.free, row, node)
        for index, driver in attach_resources(self.classes).items():
            self.free[index, :count] = free_attachments(self.snapshot, driver, kept.tolist())
            self.free[index, count : self.size] = learned_limits(
                self.snapshot, driver, [{HOSTNAME: node.name, **node.labels} for node in coming]
            )
        self._free_at_first = self.free[:, : self.size].copy()
        self.alive: Mask = np.ones(self.capacity_rows, np.bool_)  # False: accepts no more pods
        # New nodes only: the current offering, and the set of offerings they may become.
        self.offering = np.full(self.capacity_rows, -1, np.int64)
        self.set_of = np.full(self.capacity_rows, -1, np.int64)
        self.sets: list[tuple[int, int]] = []  # a lane and some of its members
        self._set_index: dict[tuple[int, int], int] = {}
        self._ladders: dict[tuple[int, int], Ladder] = {}
        caps = self.offerings.caps
        if caps.shape[0] < resources:
            self.offerings.caps = np.concatenate((caps, np.zeros((resources - caps.shape[0], caps.shape[1]), np.int64)))
            for lane in self.offerings.lanes:
                lane.caps = np.ascontiguousarray(self.offerings.caps[:, lane.members])
        self.weights = self._weights()
        self._vectors: dict[Shape, tuple[Ints, float]] = {}
        self.slack: NDArray[np.float64] = np.zeros(self.capacity_rows)  # free amounts, all resources weighted together
        self.slack[: self.size] = self.weights @ self.free[:, : self.size]
        self._slack_when_empty: NDArray[np.float64] = self.weights @ self.offerings.caps  # by offering
        # Row count when a pod was first placed in a way that further nodes may invalidate: a node opened later is an
        # empty host domain and brings its DaemonSet pods.
        self.relied_on_rows = 2**31
        self.structure = 0  # changes when rows are opened or change their offering

    def _weights(self) -> NDArray[np.float64]:
        """Return weights that make resources comparable: the share of the total. Rare resources weigh most."""
        total = self.free[:, : self.size].clip(min=0).sum(axis=1) + self.offerings.caps.sum(axis=1)
        weights = np.zeros(len(total))
        np.divide(1.0, total, out=weights, where=total > 0)
        weights[2] = 0.0  # pod counts say nothing about fit
        weights[list(attach_resources(self.classes))] = 0.0  # neither do volumes
        return weights

    def _make_topology(self, key: str) -> Topology:
        topology = Topology(key, self.capacity_rows)
        for row, place in enumerate(self.node_traits):
            topology.put(row, place.name if key == NODES else place.labels.get(key))
        if not topology.of_hosts:
            for lane in self.offerings.lanes:
                value = lane.domains[key]
                if value is not None:
                    topology.enter(value)
        return topology

    def _reserve(self, rows: int) -> None:
        if self.size + rows <= self.capacity_rows:
            return
        more = max(self.capacity_rows, self.size + rows - self.capacity_rows)
        wide = np.zeros((self.free.shape[0], more), np.int64)
        self.free = np.concatenate((self.free, wide), axis=1)
        self.alive = np.concatenate((self.alive, np.ones(more, np.bool_)))
        self.offering = np.concatenate((self.offering, np.full(more, -1, np.int64)))
        self.set_of = np.concatenate((self.set_of, np.full(more, -1, np.int64)))
        self.slack = np.concatenate((self.slack, np.zeros(more)))
        self.capacity_rows += more
        self.pod_counters.reserve(self.capacity_rows)

    # ── placing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def place(self, pod_class: PodClass, shape: Shape, rows: RowIndex, counts: Ints) -> None:
        """Put `counts[i]` pods on `rows[i]` (each row once) without checking rules."""
        vector, weight = self._vector(shape)
        taken = vector[:, None] * counts
        self.free[:, rows] -= taken
        self.slack[rows] -= weight * counts
        for counter in self.pod_counters.increments(pod_class):
            counter.add(rows, counts)

    def place_one(self, pod_class: PodClass, shape: Shape, row: int, count: int = 1) -> None:
        vector, weight = self._vector(shape)
        if count != 1:
            vector, weight = vector * count, weight * count
        self.free[:, row] -= vector
        self.slack[row] -= weight
        for counter in self.pod_counters.increments(pod_class):
            counter.add_one(row, count)

    def place_each(self, pod_class: PodClass, shapes: Sequence[Shape], counts: Sequence[int], rows: RowIndex) -> None:
        """Put one pod on each of `rows` (all different): `counts[i]` pods of `shapes[i]`, then the next shape."""
        vectors, weights = zip(*map(self._vector, shapes), strict=True)
        taken = np.repeat(np.array(vectors), counts, axis=0).T
        self.free[:, rows] -= taken
        self.slack[rows] -= np.repeat(weights, counts)
        for counter in self.pod_counters.increments(pod_class):
            counter.add(rows, 1)

    def take(self, shape: Shape, rows: RowIndex) -> None:
        """Subtract one pod from each of `rows` (all different). The caller updates counters."""
        for resource, amount in shape:
            self.free[resource][rows] -= amount
        self.slack[rows] -= self._vector(shape)[1]

    def vector(self, shape: Shape) -> Ints:
        """Return a shape as a column of amounts."""
        return self._vector(shape)[0]

    def _vector(self, shape: Shape) -> tuple[Ints, float]:
        """Return a shape as a column of amounts, and the slack it uses."""
        found = self._vectors.get(shape)
        if found is None:
            vector = np.zeros(self.free.shape[0], np.int64)
            for resource, amount in shape:
                vector[resource] = amount
            found = self._vectors[shape] = (vector, float(self.weights @ vector))
        return found

    def open(self, openings: Sequence[NodeOpening]) -> RowIndex:
        """Append reserved new nodes, opening by opening."""
        nodes = [opening.nodes for opening in openings]
        self._reserve(sum(nodes))
        first, self.size = self.size, self.size + sum(nodes)
        new = slice(first, self.size)
        names = [f"new-{number}" for number in range(first - self.first_new, self.size - self.first_new)]
        self.names += names
        offering = np.repeat([opening.offering for opening in openings], nodes)
        self.free[:, new] = self.offerings.caps[:, offering]
        self.slack[new] = self._slack_when_empty[offering]
        self.offering[new] = offering
        self.set_of[new] = np.repeat([self.set_index(o.lane, o.members) for o in openings], nodes)
        self.pod_counters.open(new, names, [self.offerings.lanes[o.lane].domains for o in openings], nodes, offering)
        for _, _, offered, count in openings if self.daemons else ():
            for counter in self.daemons.increments(offered):
                counter.add(np.arange(first, first + count), 1)
            first += count
        self.structure += 1
        return np.arange(new.start, new.stop)

    def open_one(self, lane: int, members: int, offering: int) -> int:
        """Append one new node that was not reserved."""
        self.offerings.opened(self.offerings.lanes[lane], 1)
        return int(self.open([NodeOpening(lane, members, offering, 1)])[0])

    def close(self, first: int) -> None:
        """Remove the last rows, on which no pod was placed."""
        for row in range(first, self.size):
            for counter in self.daemons.increments(int(self.offering[row])):
                counter.add_one(row, -1)
            self.offerings.opened(self.lane_at(row), -1)
        self.pod_counters.close(first, self.names[first:])
        del self.names[first:]
        self.size = first
        self.structure += 1

    def resize(self, rows: RowIndex, offerings: RowIndex | int) -> None:
        """Switch new nodes to another offering of their lane."""
        held = self.held(rows)
        self.offering[rows] = offerings
        self.free[:, rows] = self.offerings.caps[:, self.offering[rows]] - held
        self.slack[rows] = self.weights @ self.free[:, rows]
        self.structure += 1

    def set_index(self, lane_index: int, members: int) -> int:
        key = (lane_index, members)
        index = self._set_index.get(key)
        if index is None:
            index = self._set_index[key] = len(self.sets)
            self.sets.append(key)
        return index

    def narrow(self, rows: RowIndex, admitted: Sequence[int]) -> None:
        """Limit what new nodes may become to `admitted` (members by lane), after they received such pods."""
        for index in sorted(set(self.set_of[rows].tolist())):
            lane, members = self.sets[index]
            if members & ~admitted[lane]:
                here = rows[self.set_of[rows] == index]
                self.set_of[here] = self.set_index(lane, members & admitted[lane])

    def held(self, rows: RowIndex | slice | int) -> Ints:
        """Return what the pods on new nodes use of each resource."""
        if isinstance(rows, np.ndarray):  # `take` keeps amounts of one resource adjacent in memory, indexing does not
            taken: Ints = self.offerings.caps.take(self.offering.take(rows), axis=1) - self.free.take(rows, axis=1)
        else:
            taken = self.offerings.caps[:, self.offering[rows]] - self.free[:, rows]
        return taken

    def overdrawn(self) -> bool:
        """Whether the plan took more from a node than was free. Earlier overcommitment is ignored."""
        free = self.free[:, : self.size]
        at_first = np.concatenate(
            (self._free_at_first, self.offerings.caps[:, self.offering[self.first_new : self.size]]), axis=1
        )
        return bool(((free < 0) & (free < at_first)).any())

    def holding(self, row: int, more: Shape = (), count: int = 1) -> int:
        """Return the members of a new node's lane that are still possible and hold its pods and `count` more."""
        held: list[int] = self.held(row).tolist()
        for resource, amount in more:
            held[resource] += amount * count
        lane, members = self.sets[int(self.set_of[row])]
        return self.offerings.lanes[lane].holding(enumerate(held), members)

    def ladder(self, lane: int, members: int) -> Ladder:
        key = (lane, members)
        if key not in self._ladders:
            self._ladders[key] = Ladder(self.offerings.lanes[lane], members)
        return self._ladders[key]

    def in_use(self) -> Mask:
        """By new node: whether it holds pods."""
        most: Ints = self.held(slice(self.first_new, self.size)).max(axis=0, initial=0)
        return most > 0

    def rows_to_make(self) -> list[int]:
        """Return new nodes that hold pods."""
        rows: list[int] = (np.flatnonzero(self.in_use()) + self.first_new).tolist()
        return rows

    def sizes_of(self, rows: list[int]) -> list[tuple[int, int]]:
        """By new node: its lane, and the members that are still possible and hold its pods."""
        found: dict[int, tuple[int, int]] = {}
        at = np.array(rows, np.intp)
        sets = self.set_of[at]
        for index in sorted(set(sets.tolist())):
            lane, members = self.sets[index]
            ladder = self.ladder(lane, members)
            here = at[sets == index]
            if ladder.complete:
                rungs: list[int] = ladder.rung_for(self.held(here)).tolist()
                size_of = {rung: (lane, ladder.holding(rung)) for rung in dict.fromkeys(rungs)}
                found.update(zip(here.tolist(), map(size_of.__getitem__, rungs), strict=True))
            else:
                found.update((row, (lane, self.holding(row))) for row in here.tolist())
        return [found[row] for row in rows]

    def cheapest_offerings(self, rows: list[int]) -> list[int]:
        """Return the final offering of each new node."""
        at = np.array(rows, np.intp)
        sets, chosen = self.set_of[at], np.zeros(len(at), np.int64)
        for index in sorted(set(sets.tolist())):
            lane_index, members = self.sets[index]
            lane, ladder = self.offerings.lanes[lane_index], self.ladder(lane_index, members)
            here = np.flatnonzero(sets == index)
            if ladder.complete:  # anything cheaper than a rung is as small as a lower rung
                of_lane = ladder.members[ladder.rung_for(self.held(at[here]))]
            else:
                of_lane = np.array([cheapest(self.holding(row)) for row in at[here].tolist()])
            chosen[here] = lane.members[of_lane]
        offerings: list[int] = chosen.tolist()
        return offerings

    def lane_at(self, row: int) -> Lane:
        return self.offerings.lanes[self.sets[int(self.set_of[row])][0]]


def _with_few_values(keys: set[str], templates: Sequence[Template]) -> set[str]:
    """Return labels that selectors use and offerings have few values of, such as capacity type or architecture.

    With one lane per value, either all or no offerings of a lane suit a pod, and such pods can be placed in bulk.
    """
    lanes, found = 1, set()
    for key in sorted(keys):
        values = {o.labels.get(key, t.labels.get(key)) for t in templates for o in t.offerings}
        if len(values) * lanes <= _MOST_LANES_FOR_SELECTORS:
            lanes *= max(1, len(values))
            found.add(key)
    return found
