"""All counters that rules of the pods in play read, kept up to date as pods are placed. Owned by `PlanState`.

A counter is identified by what it counts, so classes with the same question share it. A new counter is filled from the
snapshot class by class, never pod by pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.class_index import Label, required_labels
from plimsoll.scheduling.model import HOSTNAME
from plimsoll.scheduling.node_equivalence import NodeClasses
from plimsoll.scheduling.pod_equivalence import AffinityTerm, PodClass, PodIdentity, SpreadConstraint
from plimsoll.scheduling.rules import expressions_match, ports_conflict
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import NODES, Mask, Topology, TopologyCounter, Watched

_NONE = np.zeros(0, np.intp)


class KeptSpread(NamedTuple):
    """A spread constraint that pods of this plan rely on."""

    counter: TopologyCounter
    kept: TopologyCounter  # where those pods are
    max_skew: int
    min_domains: int


class OwnSpread(NamedTuple):
    """A spread constraint of a class in play."""

    spread: SpreadConstraint
    counter: TopologyCounter
    kept: TopologyCounter  # by domain: pods of this plan whose own spread a later pod could break


class PodCounters:
    def __init__(self, snapshot: Snapshot, in_play: Sequence[PodClass], daemons: Iterable[int]) -> None:
        self._snapshot = snapshot
        self._classes = snapshot.classes.classes
        self._in_play = in_play
        self._playing = {pod_class.index for pod_class in in_play}
        self._slots = SlotsByClass(snapshot)
        self.holders = self._holder_terms({*self._playing, *daemons})
        self.topology_keys = self._topology_keys()
        self.kept_spreads: list[KeptSpread] = []
        self._kept_by_counter: dict[TopologyCounter, list[int]] = {}  # indexes of kept spreads by counter
        self._counters: dict[object, TopologyCounter] = {}
        self._in_order: list[TopologyCounter] = []
        # By what a class must have to be counted: positions of counters in that order.
        self._counting: dict[Label | AffinityTerm | None, list[int]] = {}
        self._watched: dict[object, Watched] = {}  # by the policies of a spread: the nodes it considers
        self._own_spreads: dict[int, list[OwnSpread]] = {}  # by class
        self._bumps: dict[int, list[TopologyCounter]] = {}
        self._seen: dict[object, list[TopologyCounter]] = {}

    def covers(self, term: AffinityTerm, identity: PodIdentity) -> bool:
        return term.covers(identity, self._snapshot.namespaces.get(identity.namespace, {}))

    def _holder_terms(self, here: set[int]) -> dict[AffinityTerm, list[int]]:
        """Return anti-affinity terms that match a class in play, with the classes that have them and either run pods or
        are in `here`.
        """
        meant: dict[AffinityTerm, list[int]] = {}
        for one in {one.identity_index: one for one in self._in_play}.values():
            for term, who in self._snapshot.classes.index.holders(one):
                if term not in meant and self.covers(term, one.identity):
                    meant[term] = who
        there = {term: [i for i in who if i in here or len(self._slots.of(i))] for term, who in meant.items()}
        order = sorted(
            (who[0], self._classes[who[0]].anti_affinity.index(term), term) for term, who in there.items() if who
        )
        return {term: there[term] for *_, term in order}

    def _topology_keys(self) -> set[str]:
        keys = {term.topology_key for term in self.holders}
        for me in self._in_play:
            keys.update(
                term.topology_key for term in (*me.affinity, *me.anti_affinity, *(t for _, t in me.preferences))
            )
            keys.update(spread.topology_key for spread in (*me.spread, *me.soft_spread))
            keys.update([NODES] if me.ports else [])
        return keys

    # ── setting up ───────────────────────────────────────────────────────────────────────────────────────────────────

    def take(
        self,
        *,
        topologies: dict[str, Topology],
        node_classes: NodeClasses,
        offering_classes: NodeClasses,
        state_rows: NDArray[np.int64],
        size: int,
        more: Iterable[tuple[int, int]],
    ) -> None:
        """Fill all counters. `state_rows` maps rows of the snapshot to rows of the plan state, which has `size` rows so
        far; `more` are further pods, each a row of the plan state and a class.
        """
        self._topologies = topologies
        self._node_classes = node_classes
        self._offering_classes = offering_classes
        self._state_rows = state_rows
        self._size = size
        self._more = tuple(more)
        for term in self.holders:
            self.holder_counter(term)
        for me in self._in_play:
            if me.affinity:
                self.affinity_counters(me)
            for term in (*me.anti_affinity, *(term for _, term in me.preferences)):
                self.term_counter(term)
            self.own_spreads(me)
            for spread in me.soft_spread:
                self.spread_counter(me, spread)
            if me.ports:
                self.port_counter(me)

    def affinity_counters(self, pod_class: PodClass) -> list[TopologyCounter]:
        """Return one counter per term; a pod counts only if it matches every term of the class."""
        alike = frozenset((t.namespaces, t.namespace_selector, t.selector) for t in pod_class.affinity)
        return [self._counter(("matches", term.topology_key, alike), term.topology_key) for term in pod_class.affinity]

    def term_counter(self, term: AffinityTerm) -> TopologyCounter:
        alike = frozenset([(term.namespaces, term.namespace_selector, term.selector)])
        return self._counter(("matches", term.topology_key, alike), term.topology_key)

    def holder_counter(self, term: AffinityTerm) -> TopologyCounter:
        """Return the counter of pods that have this anti-affinity term."""
        return self._counter(("holds", term), term.topology_key)

    def port_counter(self, pod_class: PodClass) -> TopologyCounter:
        """Return the counter of pods whose host ports conflict with this class, by node."""
        return self._counter(("ports", pod_class.ports), NODES)

    def spread_counter(self, pod_class: PodClass, spread: SpreadConstraint) -> TopologyCounter:
        key = self._spread_key(pod_class, spread)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counter(key, spread.topology_key, self._watched_by(pod_class, spread, key))
        return counter

    def _watched_by(self, pod_class: PodClass, spread: SpreadConstraint, key: tuple[object, ...]) -> Watched:
        policies = (spread.topology_key, *key[4:])
        watched = self._watched.get(policies)
        if watched is None:
            topology = self._topologies[spread.topology_key]
            eligible = np.zeros(len(topology.domain), np.bool_)
            eligible[: self._size] = self._counted_nodes(pod_class, spread, self._node_classes)
            offerings = self._counted_nodes(pod_class, spread, self._offering_classes)
            watched = self._watched[policies] = Watched(topology, eligible, offerings)
            watched.all_eligible = bool(eligible[: self._size].all())
        return watched

    def own_spreads(self, pod_class: PodClass) -> list[OwnSpread]:
        """Return the spread constraints of a class in play with their counters."""
        found = self._own_spreads.get(pod_class.index)
        if found is None:
            found = self._own_spreads[pod_class.index] = [self._own_spread(pod_class, s) for s in pod_class.spread]
        return found

    def _own_spread(self, pod_class: PodClass, spread: SpreadConstraint) -> OwnSpread:
        counter = self.spread_counter(pod_class, spread)
        key = ("keeps", spread.max_skew, spread.min_domains, counter.key)
        kept = self._counters.get(key)
        if kept is None:
            kept = self._counter(key, spread.topology_key)
            self._kept_by_counter.setdefault(counter, []).append(len(self.kept_spreads))
            self.kept_spreads.append(KeptSpread(counter, kept, spread.max_skew, spread.min_domains))
        return OwnSpread(spread, counter, kept)

    @staticmethod
    def _beside(pod_class: PodClass, spread: SpreadConstraint) -> tuple[SpreadConstraint, ...]:
        """Return the constraints of the same kind, hard or soft: a node that lacks a key of any of them is not
        considered.
        """
        return pod_class.spread if spread in pod_class.spread else pod_class.soft_spread

    def _spread_key(self, pod_class: PodClass, spread: SpreadConstraint) -> tuple[object, ...]:
        keys = frozenset(other.topology_key for other in self._beside(pod_class, spread))
        chosen = pod_class.node_selector or pod_class.required is not None
        who = (tuple(sorted(pod_class.node_selector.items())), pod_class.required) if chosen else None
        return (
            "spreads",
            spread.topology_key,
            pod_class.namespace,
            spread.selector,
            keys,
            who if spread.honor_affinity else None,
            pod_class.tolerations if spread.honor_taints else None,
        )

    def _counted_nodes(self, pod_class: PodClass, spread: SpreadConstraint, node_classes: NodeClasses) -> Mask:
        """By node: whether a spread considers it: it has all topology keys of the pod, and both node policies admit it."""
        counted = np.ones(len(node_classes.node_traits), np.bool_)
        for key in {other.topology_key for other in self._beside(pod_class, spread)}:
            if node_classes is self._node_classes or key != HOSTNAME:  # a new node always has a host name
                counted &= node_classes.having(key)
        if spread.honor_affinity:
            counted &= node_classes.selected(pod_class)
        if spread.honor_taints:
            counted &= node_classes.tolerated(pod_class.tolerations)
        return counted

    def _counter(self, key: tuple[object, ...], topology_key: str, watched: Watched | None = None) -> TopologyCounter:
        counter = self._counters.get(key)
        if counter is not None:
            return counter
        counter = self._counters[key] = TopologyCounter(self._topologies[topology_key], key, watched)
        for wanted in _wanted_by(key):
            self._counting.setdefault(wanted, []).append(len(self._in_order))
        self._in_order.append(counter)
        for index in self._candidates(key):
            if len(slots := self._slots.of(index)) and self._counts(key, self._classes[index]):
                counter.add(self._state_rows[self._snapshot.pod_rows[slots]], 1)
        for row, index in self._more:
            if self._counts(key, self._classes[index]):
                counter.add_one(row)
        counter.at_first = counter.total
        return counter

    # ── what counts ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _counts(self, key: tuple[object, ...], pod_class: PodClass) -> bool:
        """Whether a counter counts pods of a class."""
        match key:
            case ("matches", _, frozenset() as alike):
                labels = self._snapshot.namespaces.get(pod_class.namespace, {})
                return all(AffinityTerm("", *one).covers(pod_class.identity, labels) for one in alike)
            case ("holds", term):
                return term in pod_class.anti_affinity
            case ("ports", tuple() as ports):
                return bool(pod_class.ports) and ports_conflict(pod_class.ports, ports)
            case ("spreads", _, namespace, tuple() as selector, *_):
                return (
                    bool(selector)
                    and not pod_class.terminating
                    and pod_class.namespace == namespace
                    and expressions_match(selector, pod_class.identity.labels)
                )
        return False  # "keeps" counts only pods of the plan, by their class

    def _candidates(self, key: tuple[object, ...]) -> Iterable[int]:
        """Return the classes that a counter may count, by required label where there is one."""
        found: list[int] = []
        for wanted in _wanted_by(key):
            match wanted:
                case None:
                    return self._slots.present()
                case AffinityTerm():
                    found += self.holders.get(wanted, ())
                case _:
                    found += self._snapshot.classes.index.with_label(wanted)
        return found

    def increments(self, pod_class: PodClass) -> list[TopologyCounter]:
        """Return the counters that one more pod of a class increments."""
        found = self._bumps.get(pod_class.index)
        if found is None:
            plays = pod_class.index in self._playing
            kept = [spread.kept for spread in self.own_spreads(pod_class)] if plays else []
            found = self._bumps[pod_class.index] = [*self._seen_by(pod_class), *dict.fromkeys(kept)]
        return found

    def spreads_changed_by(self, pod_class: PodClass) -> list[KeptSpread]:
        """Return the spreads of this plan that one more pod of a class could break."""
        numbers = [n for counter in self.increments(pod_class) for n in self._kept_by_counter.get(counter, ())]
        return [self.kept_spreads[number] for number in sorted(numbers)]

    def _seen_by(self, pod_class: PodClass) -> list[TopologyCounter]:
        """Return the counters that count a class by its labels, terms and ports; shared by many classes."""
        what = (pod_class.identity_index, pod_class.terminating, pod_class.anti_affinity, pod_class.ports)
        found = self._seen.get(what)
        if found is None:
            has = (None, *pod_class.identity.labels.items(), *pod_class.anti_affinity)
            places = sorted({place for one in has for place in self._counting.get(one, ())})
            counters = [self._in_order[place] for place in places]
            found = self._seen[what] = [one for one in counters if self._counts(one.key, pod_class)]
        return found

    def __iter__(self) -> Iterator[TopologyCounter]:
        return iter(tuple(self._in_order))

    def __bool__(self) -> bool:
        return bool(self._in_order)

    # ── nodes come and go ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve(self, rows: int) -> None:
        for topology in self._topologies.values():
            topology.reserve(rows)
        for watched in self._watched.values():
            watched.reserve(rows)

    def open(
        self,
        rows: slice,
        names: list[str],
        domains: Sequence[dict[str, str | None]],
        nodes: Sequence[int],
        offering: NDArray[np.int64],
    ) -> None:
        """Add empty new nodes: `nodes[i]` of them in `domains[i]`, then the next; `offering` by node."""
        for topology in self._topologies.values():
            if topology.of_hosts:
                topology.put_hosts(rows, names)
            else:
                topology.put_together(rows, [where.get(topology.key) for where in domains], nodes)
        for watched in self._watched.values():
            watched.appeared(rows, offering)

    def close(self, first: int, names: list[str]) -> None:
        """Remove the last new nodes, from row `first` on."""
        for topology in self._topologies.values():
            topology.forget(first, names)
        for watched in self._watched.values():
            watched.vanished(first)

    def count_node(self, row: int, *, there: bool) -> None:
        """Remove an existing node from, or return it to, the nodes that spreads consider."""
        for watched in self._watched.values():
            watched.count_node(row, there=there)

    def make_room(self) -> None:
        """Resize every counter to all known domains, so that host rows can be read directly."""
        for counter in self:
            counter.by_domain()


def _wanted_by(key: tuple[object, ...]) -> Sequence[Label | AffinityTerm | None]:
    """Return what a class must have one of to be counted: labels or anti-affinity terms.

    None if nothing is required; empty if classes are not counted by their labels, terms or ports.
    """
    match key:
        case ("holds", AffinityTerm() as term):
            return (term,)
        case ("matches", _, frozenset() as alike):
            selectors = [selector for *_, selector in alike]
        case ("spreads", _, _, selector, *_):
            selectors = [selector]
        case ("ports", *_):
            return (None,)
        case _:
            return ()
    for selector in selectors:
        for labels in required_labels(selector):
            return labels
    return (None,)


class SlotsByClass:
    """The pods of each class. For a few classes, searching one by one is faster than sorting all pods."""

    _A_FEW = 16

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._found: dict[int, NDArray[np.intp]] = {}
        self._all = False

    def of(self, index: int) -> NDArray[np.intp]:
        slots = self._found.get(index)
        if slots is None and not self._all:
            if len(self._found) < self._A_FEW:
                snapshot = self._snapshot
                here = (snapshot.pod_classes == index) & (snapshot.pod_rows >= 0)
                slots = self._found[index] = here.nonzero()[0]
            else:
                slots = self._sorted().get(index)
        return slots if slots is not None else _NONE

    def present(self) -> Iterable[int]:
        """Return the classes that have pods."""
        return self._sorted()

    def _sorted(self) -> dict[int, NDArray[np.intp]]:
        if not self._all:
            self._found, self._all = _slots_by_class(self._snapshot), True
        return self._found


def _slots_by_class(snapshot: Snapshot) -> dict[int, NDArray[np.intp]]:
    slots = np.flatnonzero(snapshot.pod_rows >= 0)
    if not len(slots):
        return {}
    order = slots[np.argsort(snapshot.pod_classes[slots], kind="stable")]
    classes = snapshot.pod_classes[order]
    starts = np.flatnonzero(np.diff(classes, prepend=-1)).tolist()
    parts = [order[start:end] for start, end in pairwise((*starts, len(order)))]  # np.split takes five times as long
    return dict(zip(classes[starts].tolist(), parts, strict=True))
