"""The state that a plan is worked out on: nodes as rows, how much is free on each, and every count that a rule looks at.

A board starts as a copy of the snapshot (which it never changes) with coming nodes behind it; new nodes are appended as they are
opened. It knows how to place pods and open nodes and keeps all counts true while it does; what to place where is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types import Toleration
from plimsoll.scheduling.classes import Identity, PodClass, Shape, Spread, Term
from plimsoll.scheduling.kinds import Kinds, Place, static_keys
from plimsoll.scheduling.model import HOSTNAME, ComingNode, Template
from plimsoll.scheduling.offerings import Lane, Offerings, cheapest
from plimsoll.scheduling.requests import allocatable
from plimsoll.scheduling.rules import ports_conflict, selects
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import Counter, Mask, Topology
from plimsoll.scheduling.volumes import VolumeRules, volume_rules

Ints = NDArray[np.int64]
RowIndex = NDArray[np.intp]

# What the DaemonSet controller adds to its pods, so that they run on nodes that others must avoid for now.
_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)


class Board:
    def __init__(
        self,
        snapshot: Snapshot,
        in_play: Iterable[PodClass],
        templates: Sequence[Template] = (),
        coming: Sequence[ComingNode] = (),
    ) -> None:
        self.snapshot = snapshot
        self.classes = snapshot.classes
        self.in_play = tuple(in_play)
        self.volume_rules: dict[int, VolumeRules] = {c.index: volume_rules(snapshot, c) for c in self.in_play}
        self._daemons = _Daemons(self, templates, coming)

        kept = [row for row, facts in enumerate(snapshot.nodes) if facts is not None]
        self._board_row = np.full(len(snapshot.nodes), -1, np.int64)
        self._board_row[kept] = np.arange(len(kept))
        self.places = [Place(f.name, f.labels, f.taints, f.unschedulable) for f in snapshot.nodes if f is not None]
        self.places += [Place(node.name, node.labels, node.taints, unschedulable=False) for node in coming]
        self.names = [place.name for place in self.places]
        self.size = self.first_new = len(self.places)  # rows in use; those from `first_new` on are nodes to be made

        self.holders = self._holder_terms()
        topology_keys = _topology_keys(self.in_play, self.holders)
        rule_keys: set[str] = set()
        lane_keys = topology_keys - {HOSTNAME}
        for pod_class in self.in_play:
            keys = static_keys(pod_class, self.volume_rules[pod_class.index])
            rule_keys |= keys
            if any(s.honor_affinity for s in (*pod_class.spread, *pod_class.soft_spread)):
                lane_keys |= keys - {HOSTNAME}  # whether the spread counts a new node must be known when it is opened
        self.kinds = Kinds(self.places, rule_keys)

        self.offerings = Offerings(templates, sorted(lane_keys), self.classes.resource)
        self._daemons.take_off(self.offerings)
        self.offerings.make_lanes()
        self.offering_kinds = Kinds(
            [Place("", s.labels, s.taints, unschedulable=False) for s in self.offerings.sold], rule_keys
        )

        self._make_rows(kept, coming)
        self.topologies = {key: self._make_topology(key) for key in sorted(topology_keys)}
        self._counters: dict[object, Counter] = {}
        self._class_bumps: dict[int, list[Counter]] = {}
        self.kept_spreads: list[
            tuple[Counter, Counter, int, int]
        ] = []  # counter, pods that rely on it, skew, min domains
        self._by_class = _slots_by_class(snapshot)
        self._make_counters()

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_rows(self, kept: list[int], coming: Sequence[ComingNode]) -> None:
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
            self._daemons.take_off_coming(self.free, row, node)
        self.alive: Mask = np.ones(self.capacity_rows, np.bool_)  # False: takes no more pods
        # New nodes only: the offering they are taken for at present, the set they may become, and what they hold.
        self.offering = np.full(self.capacity_rows, -1, np.int64)
        self.set_of = np.full(self.capacity_rows, -1, np.int64)
        self.sets: list[tuple[int, int]] = []  # a lane and some of its members
        self._set_index: dict[tuple[int, int], int] = {}
        self.held: Ints = np.zeros((resources, self.capacity_rows), np.int64)
        caps = self.offerings.caps
        if caps.shape[0] < resources:
            self.offerings.caps = np.concatenate((caps, np.zeros((resources - caps.shape[0], caps.shape[1]), np.int64)))
            for lane in self.offerings.lanes:
                lane.caps = np.ascontiguousarray(self.offerings.caps[:, lane.members])
        self.weights = self._weights()
        self._vectors: dict[Shape, tuple[Ints, float]] = {}
        self.slack: NDArray[np.float64] = np.zeros(
            self.capacity_rows
        )  # how much is free, all resources weighed together
        self.slack[: self.size] = self.weights @ self.free[:, : self.size]
        # How many rows there were when a pod was first placed where it may not have been allowed with more of them: a node
        # opened later is an empty domain of hosts, and brings its daemons along.
        self.relied_on_rows = 2**31
        self.structure = 0  # changes when rows are opened or change their offering

    def _weights(self) -> NDArray[np.float64]:
        """What makes amounts of different resources comparable: a share of what there is. Rare resources weigh most."""
        total = self.free[:, : self.size].clip(min=0).sum(axis=1) + self.offerings.caps.sum(axis=1)
        weights = np.zeros(len(total))
        np.divide(1.0, total, out=weights, where=total > 0)
        weights[2] = 0.0  # places for pods are plenty or scarce for all alike; they say nothing about fit
        return weights

    def _make_topology(self, key: str) -> Topology:
        topology = Topology(key, self.capacity_rows)
        for row, place in enumerate(self.places):
            topology.put(row, place.labels.get(key))
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
        self.held = np.concatenate((self.held, wide), axis=1)
        self.alive = np.concatenate((self.alive, np.ones(more, np.bool_)))
        self.offering = np.concatenate((self.offering, np.full(more, -1, np.int64)))
        self.set_of = np.concatenate((self.set_of, np.full(more, -1, np.int64)))
        self.slack = np.concatenate((self.slack, np.zeros(more)))
        self.capacity_rows += more
        for topology in self.topologies.values():
            topology.reserve(self.capacity_rows)
        for counter in self._counters.values():
            if counter.eligible is not None:
                counter.eligible = np.concatenate((counter.eligible, np.zeros(more, np.bool_)))

    # ── counters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _holder_terms(self) -> dict[Term, list[int]]:
        """Anti-affinity terms that speak of a class in play, each with the classes that have it."""
        have: dict[Term, list[int]] = {}
        present = set(np.unique(self.snapshot.pod_classes[self.snapshot.pod_rows >= 0]).tolist())
        present |= {c.index for c in self.in_play} | set(self._daemons.class_indexes)
        for index in sorted(present):
            for term in self.classes.classes[index].anti_affinity:
                have.setdefault(term, []).append(index)
        return {t: who for t, who in have.items() if any(self.covers(t, c.identity) for c in self.in_play)}

    def covers(self, term: Term, identity: Identity) -> bool:
        return term.covers(identity, self.snapshot.namespaces.get(identity.namespace, {}))

    def _make_counters(self) -> None:
        for term in self.holders:
            self.holder_counter(term)
        for pod_class in self.in_play:
            if pod_class.affinity:
                self.affinity_counters(pod_class)
            for term in pod_class.anti_affinity:
                self.term_counter(term)
            for _, term in pod_class.preferences:
                self.term_counter(term)
            for spread in (*pod_class.spread, *pod_class.soft_spread):
                self.spread_counter(pod_class, spread)
            for spread in pod_class.spread:
                self.kept_counter(pod_class, spread)
            if pod_class.ports:
                self.port_counter(pod_class)

    def affinity_counters(self, pod_class: PodClass) -> list[Counter]:
        """One a term; a pod counts only if it matches every term of the class."""
        alike = frozenset((t.namespaces, t.namespace_selector, t.selector) for t in pod_class.affinity)
        found = []
        for term in pod_class.affinity:
            key = ("matches", term.topology_key, alike)
            if key not in self._counters:
                self._add_counter(key, self.topologies[term.topology_key])
            found.append(self._counters[key])
        return found

    def term_counter(self, term: Term) -> Counter:
        key = ("matches", term.topology_key, frozenset([(term.namespaces, term.namespace_selector, term.selector)]))
        return self._counters.get(key) or self._add_counter(key, self.topologies[term.topology_key])

    def holder_counter(self, term: Term) -> Counter:
        """Pods that have this anti-affinity term."""
        key = ("holds", term)
        return self._counters.get(key) or self._add_counter(key, self.topologies[term.topology_key])

    def port_counter(self, pod_class: PodClass) -> Counter:
        """Pods whose host ports are in the way of this class, by node."""
        key = ("ports", pod_class.ports)
        return self._counters.get(key) or self._add_counter(key, self._rows_topology())

    def spread_counter(self, pod_class: PodClass, spread: Spread) -> Counter:
        key = self._spread_key(pod_class, spread)
        counter = self._counters.get(key)
        if counter is None:
            eligible = np.zeros(self.capacity_rows, np.bool_)
            eligible[: self.first_new] = self._counted_nodes(pod_class, spread, self.kinds)
            counter = self._add_counter(key, self.topologies[spread.topology_key], eligible)
            counter.counted_offerings = self._counted_nodes(pod_class, spread, self.offering_kinds)
        return counter

    def kept_counter(self, pod_class: PodClass, spread: Spread) -> Counter:
        """Pods of this plan whose own spread a later pod could break, by domain."""
        key = ("keeps", spread.max_skew, spread.min_domains, self._spread_key(pod_class, spread))
        kept = self._counters.get(key)
        if kept is None:
            kept = self._add_counter(key, self.topologies[spread.topology_key])
            self.kept_spreads.append(
                (self.spread_counter(pod_class, spread), kept, spread.max_skew, spread.min_domains)
            )
        return kept

    def _spread_key(self, pod_class: PodClass, spread: Spread) -> tuple[object, ...]:
        hard = pod_class.spread if spread in pod_class.spread else pod_class.soft_spread
        keys = frozenset(s.topology_key for s in hard)
        who = self._selection_key(pod_class) if spread.honor_affinity else None
        tolerations = pod_class.tolerations if spread.honor_taints else None
        return ("spreads", spread.topology_key, pod_class.namespace, spread.selector, keys, who, tolerations)

    @staticmethod
    def _selection_key(pod_class: PodClass) -> object:
        if not pod_class.node_selector and pod_class.required is None:
            return None
        return (tuple(sorted(pod_class.node_selector.items())), pod_class.required)

    def _counted_nodes(self, pod_class: PodClass, spread: Spread, kinds: Kinds) -> Mask:
        """The nodes that a spread looks at: those with all of its pod's topology keys that its two policies admit."""
        hard = pod_class.spread if spread in pod_class.spread else pod_class.soft_spread
        counted = np.ones(len(kinds.places), np.bool_)
        for key in {s.topology_key for s in hard}:
            if kinds is self.kinds or key != HOSTNAME:  # a new node always has a host name
                counted &= kinds.having(key)
        if spread.honor_affinity:
            counted &= kinds.selected(pod_class)
        if spread.honor_taints:
            counted &= kinds.tolerated(pod_class.tolerations)
        return counted

    def _rows_topology(self) -> Topology:
        """Every node a domain of its own, whatever its labels: what host ports look at."""
        if "" not in self.topologies:
            self.topologies[""] = topology = Topology("", self.capacity_rows)
            topology.of_hosts = True
            for row in range(self.size):
                topology.put(row, str(row))
        return self.topologies[""]

    def _add_counter(self, key: tuple[object, ...], topology: Topology, eligible: Mask | None = None) -> Counter:
        counter = self._counters[key] = Counter(topology, key, eligible)
        for index, slots in self._by_class.items():
            if self._counts(key, self.classes.classes[index]):
                rows = self._board_row[self.snapshot.pod_rows[slots]]
                counter.add(rows, 1)
        for row, index in self._daemons.on_coming:
            if self._counts(key, self.classes.classes[index]):
                counter.add_one(self.first_new - len(self._daemons.coming) + row)
        return counter

    def _counts(self, key: tuple[object, ...], pod_class: PodClass) -> bool:
        """Whether a counter counts pods of a class."""
        match key:
            case ("matches", _, frozenset() as alike):
                labels = self.snapshot.namespaces.get(pod_class.namespace, {})
                return all(Term("", *one).covers(pod_class.identity, labels) for one in alike)
            case ("holds", term):
                return term in pod_class.anti_affinity
            case ("ports", tuple() as ports):
                return bool(pod_class.ports) and ports_conflict(pod_class.ports, ports)
            case ("spreads", _, namespace, selector, *_):
                return (
                    not pod_class.leaving
                    and pod_class.namespace == namespace
                    and bool(selector)
                    and selects(selector, pod_class.identity.labels)  # type: ignore[arg-type]
                )
        return False  # "keeps" is bumped by the classes that have the spread

    def bumps(self, pod_class: PodClass) -> list[Counter]:
        """The counters that one more pod of a class changes."""
        found = self._class_bumps.get(pod_class.index)
        if found is None:
            keeps = {id(self.kept_counter(pod_class, s)) for s in pod_class.spread if self._plays(pod_class)}
            found = self._class_bumps[pod_class.index] = [
                counter
                for key, counter in self._counters.items()
                if self._counts(key, pod_class) or id(counter) in keeps  # type: ignore[arg-type]
            ]
        return found

    def daemon_bumps(self, offering: int) -> list[Counter]:
        """The counters that the daemons of one new node change, once for each daemon that does."""
        if not self.has_daemons:
            return []
        daemons = self._daemons.on_offering(offering)
        return [counter for daemon in daemons for counter in self.bumps(self.classes.classes[daemon])]

    def any_daemon_bumps(self) -> list[Counter]:
        """The counters that daemons of some offering change."""
        if not self.has_daemons:
            return []
        return [counter for daemon in self._daemons.on_any for counter in self.bumps(self.classes.classes[daemon])]

    def free_of_daemons_against(self, pod_class: PodClass) -> Mask:
        """By offering: whether the pod could run beside the daemons of such a node."""
        free = np.ones(len(self.offerings.sold), np.bool_)
        for index, sold in enumerate(self.offerings.sold):
            for daemon in self._daemons.on_offering(index):
                other = self.classes.classes[daemon]
                apart = any(
                    (t.topology_key == HOSTNAME or t.topology_key in sold.labels) and self.covers(t, one.identity)
                    for terms, one in ((pod_class.anti_affinity, other), (other.anti_affinity, pod_class))
                    for t in terms
                )
                if apart or ports_conflict(pod_class.ports, other.ports):
                    free[index] = False
        return free

    def has_daemons_for(self, pod_class: PodClass, lane: Lane) -> bool:
        """Whether a new node of the lane would bring the company along that the pod's affinity asks for."""
        return self.has_daemons and any(
            all(self.covers(term, self.classes.classes[daemon].identity) for term in pod_class.affinity)
            for offering in lane.members.tolist()
            for daemon in self._daemons.on_offering(offering)
        )

    def _plays(self, pod_class: PodClass) -> bool:
        return pod_class.index in self.volume_rules

    # ── placing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def place(self, pod_class: PodClass, shape: Shape, rows: RowIndex, counts: Ints) -> None:
        """Put `counts[i]` pods on `rows[i]` (each row once), whether or not a rule allows it."""
        vector, weight = self._vector(shape)
        taken = vector[:, None] * counts
        self.free[:, rows] -= taken
        self.held[:, rows] += taken
        self.slack[rows] -= weight * counts
        for counter in self.bumps(pod_class):
            counter.add(rows, counts)

    def place_one(self, pod_class: PodClass, shape: Shape, row: int, count: int = 1) -> None:
        vector, weight = self._vector(shape)
        if count != 1:
            vector, weight = vector * count, weight * count
        self.free[:, row] -= vector
        self.held[:, row] += vector
        self.slack[row] -= weight
        for counter in self.bumps(pod_class):
            counter.add_one(row, count)

    def take(self, shape: Shape, rows: RowIndex) -> None:
        """Take the amounts of one pod from each of `rows` (all different); counters are the caller's business."""
        vector, weight = self._vector(shape)
        self.free[:, rows] -= vector[:, None]
        self.held[:, rows] += vector[:, None]
        self.slack[rows] -= weight

    def _vector(self, shape: Shape) -> tuple[Ints, float]:
        """A shape as a column of amounts, and how much slack it takes up."""
        found = self._vectors.get(shape)
        if found is None:
            vector = np.zeros(self.free.shape[0], np.int64)
            for resource, amount in shape:
                vector[resource] = amount
            found = self._vectors[shape] = (vector, float(self.weights @ vector))
        return found

    def open(self, lane_index: int, members: int, offering: int, nodes: int) -> RowIndex:
        """Append new nodes, taken for `offering` at first; `members` is what they may become."""
        self._reserve(nodes)
        lane = self.offerings.lanes[lane_index]
        self.offerings.opened(lane, nodes)
        first, self.size = self.size, self.size + nodes
        new = slice(first, self.size)
        names = [f"new-{row - self.first_new}" for row in range(first, self.size)]
        self.names += names
        caps = self.offerings.caps[:, offering]
        self.free[:, new] = caps[:, None]
        self.held[:, new] = 0
        self.slack[new] = float(self.weights @ caps)
        self.offering[new] = offering
        self.set_of[new] = self.set_index(lane_index, members)
        for topology in self.topologies.values():
            topology.put_new(new, names, lane.domains.get(topology.key))
        for counter in self._counters.values():
            if counter.counted_offerings is not None:
                counter.nodes_appeared(new, eligible=bool(counter.counted_offerings[offering]))
        rows = np.arange(first, self.size)
        for counter in self.daemon_bumps(offering):
            counter.add(rows, 1)
        self.structure += 1
        return rows

    def make_room_in_counters(self) -> None:
        """Let every counter know all domains, so that rows of hosts can be looked up without asking."""
        for counter in self._counters.values():
            counter.by_domain()

    @property
    def has_daemons(self) -> bool:
        return bool(self._daemons.class_indexes)

    @property
    def has_counters(self) -> bool:
        return bool(self._counters)

    def count_node(self, row: int, there: bool) -> None:
        """An existing node disappears from, or comes back to, what spreads look at."""
        for counter in self._counters.values():
            if counter.eligible is not None:
                if there:
                    counter.eligible[row] = counter.eligible_at_first[row]
                else:
                    counter.eligible[row] = False
                counter.nodes_changed()

    def close(self, first: int) -> None:
        """Take back the opening of the last rows, on which no pod was placed."""
        for row in range(first, self.size):
            for counter in self.daemon_bumps(int(self.offering[row])):
                counter.add_one(row, -1)
            self.offerings.opened(self.lane_at(row), -1)
        for counter in self._counters.values():
            if counter.eligible is not None:
                counter.eligible[first:] = False
        for topology in self.topologies.values():
            topology.forget(first, self.names[first:])
        for counter in self._counters.values():
            counter.nodes_changed()
        del self.names[first:]
        self.size = first
        self.structure += 1

    def resize(self, rows: RowIndex, offerings: RowIndex | int) -> None:
        """Take new nodes for another offering of their lane."""
        self.offering[rows] = offerings
        self.free[:, rows] = self.offerings.caps[:, self.offering[rows]] - self.held[:, rows]
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
        """New nodes took in pods that only `admitted` (members by lane) will have."""
        for index in np.unique(self.set_of[rows]).tolist():
            lane, members = self.sets[index]
            if members & ~admitted[lane]:
                here = rows[self.set_of[rows] == index]
                self.set_of[here] = self.set_index(lane, members & admitted[lane])

    def holding(self, row: int, more: Shape = (), count: int = 1) -> int:
        """The members of a new node's lane that may still be chosen and hold what is on it and `count` pods more."""
        held: list[int] = self.held[:, row].tolist()
        for resource, amount in more:
            held[resource] += amount * count
        lane, members = self.sets[int(self.set_of[row])]
        return self.offerings.lanes[lane].holding(enumerate(held), members)

    def cheapest_offering(self, row: int) -> int:
        """What a new node becomes in the end."""
        return int(self.lane_at(row).members[cheapest(self.holding(row))])

    def lane_at(self, row: int) -> Lane:
        return self.offerings.lanes[self.sets[int(self.set_of[row])][0]]


class _Daemons:
    """Pods of DaemonSets that will run on nodes which are not there yet."""

    def __init__(self, board: Board, templates: Sequence[Template], coming: Sequence[ComingNode]) -> None:
        of = board.classes.of
        self._classes = board.classes
        self.coming = coming
        self._on_templates = [[of(pod) for pod in template.daemons] for template in templates]
        self._on_coming = [[of(pod) for pod in node.daemons] for node in coming]
        self._on_offering: list[tuple[int, ...]] = []
        self.on_coming: list[tuple[int, int]] = []
        self.class_indexes = [index for pods in (*self._on_templates, *self._on_coming) for index, _ in pods]

    def take_off(self, offerings: Offerings) -> None:
        """Take from each offering what the daemons that it admits will hold."""
        lacking = len(self._classes.resources) - offerings.caps.shape[0]
        if lacking > 0:
            offerings.caps = np.concatenate((offerings.caps, np.zeros((lacking, len(offerings.sold)), np.int64)))
        kinds: dict[int, list[Mask]] = {}
        for template, daemons in enumerate(self._on_templates):
            columns = [i for i, sold in enumerate(offerings.sold) if sold.template == template]
            places = [
                Place("", offerings.sold[i].labels, offerings.sold[i].taints, unschedulable=False) for i in columns
            ]
            kinds[template] = [self._admitted(index, places) for index, _ in daemons]
            for (_, shape), admitted in zip(daemons, kinds[template], strict=True):
                for resource, amount in self._classes.shapes[shape]:
                    offerings.caps[resource, columns] -= amount * admitted
        seen: dict[int, int] = {}
        for sold in offerings.sold:
            position = seen[sold.template] = seen.get(sold.template, -1) + 1
            daemons = self._on_templates[sold.template]
            self._on_offering.append(
                tuple(d[0] for d, mask in zip(daemons, kinds[sold.template], strict=True) if mask[position])
            )

    def _admitted(self, class_index: int, places: list[Place]) -> Mask:
        pod_class = self._classes.classes[class_index]
        kinds = Kinds(places, static_keys(pod_class, VolumeRules()))
        return kinds.selected(pod_class) & kinds.tolerated((*pod_class.tolerations, *_DAEMON_TOLERATIONS))

    def take_off_coming(self, free: Ints, row: int, node: ComingNode) -> None:
        position = next(i for i, other in enumerate(self.coming) if other is node)
        place = Place(node.name, node.labels, node.taints, unschedulable=False)
        for index, shape in self._on_coming[position]:
            if self._admitted(index, [place])[0]:
                self.on_coming.append((position, index))
                for resource, amount in self._classes.shapes[shape]:
                    free[resource, row] -= amount

    @property
    def on_any(self) -> set[int]:
        return {index for pods in self._on_templates for index, _ in pods}

    def on_offering(self, offering: int) -> tuple[int, ...]:
        return self._on_offering[offering]


def _topology_keys(in_play: Iterable[PodClass], holders: Iterable[Term]) -> set[str]:
    keys = {term.topology_key for term in holders}
    for pod_class in in_play:
        terms = (*pod_class.affinity, *pod_class.anti_affinity, *(term for _, term in pod_class.preferences))
        keys.update(term.topology_key for term in terms)
        keys.update(spread.topology_key for spread in (*pod_class.spread, *pod_class.soft_spread))
    return keys


def _slots_by_class(snapshot: Snapshot) -> dict[int, NDArray[np.intp]]:
    """The pods of each class, for those classes that have any."""
    slots = np.flatnonzero(snapshot.pod_rows >= 0)
    if not len(slots):
        return {}
    order = slots[np.argsort(snapshot.pod_classes[slots], kind="stable")]
    classes = snapshot.pod_classes[order]
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    return dict(zip(classes[starts].tolist(), np.split(order, starts[1:]), strict=True))
