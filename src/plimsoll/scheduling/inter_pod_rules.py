"""Rules about other pods: affinity, anti-affinity, host ports and topology spread, evaluated on counters.

A rule answers two questions: which domains accept one more pod of the class now, and, where pods of the class limit
each other, how many more each domain accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.pod_equivalence import SpreadConstraint
from plimsoll.scheduling.topology import NOWHERE, Counts, Mask, TopologyCounter, Watched

PLENTY = 2**31


class InterPodRule:
    """A rule over one counter. `self_limiting`: each placed pod of the class reduces the room for the next."""

    protects = False  # protects the spread of earlier pods; is relaxed before a pod stays unplaced
    nowhere = True  # whether a node without the label is accepted

    def __init__(self, counter: TopologyCounter, *, self_limiting: bool) -> None:
        self.counter = counter
        self.topology = counter.topology
        self.self_limiting = self_limiting

    def allowed(self) -> Mask:
        """By domain: whether one more pod of the class is accepted."""
        raise NotImplementedError

    def allowed_few(self) -> bytes:
        """The same as one byte per domain, computed with plain integers; for keys other than hosts."""
        raise NotImplementedError

    def room(self) -> Counts:
        """By domain: how many more pods of the class are accepted if nothing else changes. For self-limiting rules."""
        raise NotImplementedError

    def rows(self, size: int) -> Mask:
        """By row: whether one more pod of the class is accepted."""
        if not self.topology.of_hosts:
            return self.topology.rows_in(self.allowed_few(), size, nowhere=self.nowhere)
        allowed = self.allowed()
        if self.topology.private_rows >= size and len(allowed) >= size:
            rows: Mask = allowed[:size]
            return rows
        return self.topology.rows_in(allowed.tobytes(), size, nowhere=self.nowhere)

    def allows_row(self, row: int) -> bool:
        """The same for one row, where each host is a domain with the row's number."""
        raise NotImplementedError

    def room_at(self, rows: NDArray[np.intp]) -> Counts:
        """By given row: how many more pods of the class are accepted."""
        room = self.room()
        if self.topology.of_hosts and self.topology.private_rows > rows.max(initial=-1):
            here: Counts = room[rows]
            return here
        padded = np.append(room, PLENTY if self.nowhere else 0)
        at: Counts = padded[self.topology.domain[rows]]
        return at

    def room_on_new_host(self) -> int:
        """Return how many pods of the class may share a new node, if the rule is about hosts."""
        return PLENTY

    def allows_new(self, value: str | None) -> bool:
        """Whether a new node in that domain is accepted. A new host is an empty domain of its own."""
        if self.topology.of_hosts:
            return True
        if value is None:
            return self.nowhere
        return bool(self.allowed_few()[self.topology.enter(value)])

    def overlooks(self, offering: int) -> bool:  # noqa: ARG002 - rules that look at every node have no use for it
        """Whether a pod on a new node of that offering does not count for the rule."""
        return False


class Exclusion(InterPodRule):
    """Anti-affinity and host ports: a domain with a conflicting pod is excluded."""

    def allowed(self) -> Mask:
        empty: Mask = self.counter.by_domain() == 0
        return empty

    def allowed_few(self) -> bytes:
        return bytes([count == 0 for count in self.counter.counts_list()])

    def allows_row(self, row: int) -> bool:
        return not self.counter.count[row]

    def room(self) -> Counts:
        return self.allowed().astype(np.int64)

    def room_on_new_host(self) -> int:
        return 1 if self.topology.of_hosts else PLENTY


class SkewRule(InterPodRule):
    """Topology spread: no domain may exceed the lowest by more than `max_skew`."""

    openable: Mask | None = None  # by domain: whether a node could be opened there for the class
    _expected = 0
    _expected_for: tuple[int, Mask | None] = (-1, None)

    def __init__(self, counter: TopologyCounter, max_skew: int, min_domains: int, *, self_limiting: bool) -> None:
        super().__init__(counter, self_limiting=self_limiting)
        assert counter.watched is not None, "counters of spreads watch nodes"  # noqa: S101 - guaranteed by PodCounters
        self.watched: Watched = counter.watched
        self.max_skew = max_skew
        self.min_domains = min_domains

    def limit(self) -> int:
        """Return the highest count that a domain may have including the pod."""
        return self.max_skew + self.counter.minimum(self.min_domains, self.domains_to_come())

    def domains_to_come(self) -> int:
        """Return how many domains have no node yet but could: a spread fills those before any other domain rises."""
        watched = self.watched
        if self.openable is None:
            return 0
        version, openable = self._expected_for
        if version != watched.version or openable is not self.openable:
            there = np.zeros(len(self.openable), np.bool_)
            there[: len(watched.there)] = watched.there[: len(there)]
            self._expected = int(np.count_nonzero(self.openable & ~there))
            self._expected_for = (watched.version, self.openable)
        return self._expected

    def level_limit(self, rising: Sequence[bool]) -> int:
        """Return how high the domains in `rising` may go together, limited by the lowest of the others.

        For keys other than hosts, which have few domains: plain integers are faster than setting up arrays.
        """
        expected, watched = self.domains_to_come(), self.watched
        if watched.there_count + expected < self.min_domains:
            return self.max_skew
        watched.fit()
        there = watched.there.tolist()
        if expected and self.openable is not None:
            there = [a or b for a, b in zip_longest(there, self.openable.tolist(), fillvalue=False)]
        behind = [
            count
            for count, is_there, rises in zip(self.counter.counts_list(), there, rising, strict=False)
            if is_there and not rises
        ]
        return self.max_skew + min(behind) if behind else PLENTY


class OwnSpreadRule(SkewRule):
    """The pod's own topology spread constraint."""

    nowhere = False
    expects_empty_hosts = False  # further nodes may follow, so the lowest host counts zero

    def __init__(self, counter: TopologyCounter, spread: SpreadConstraint) -> None:
        self_limiting = spread.self_match and spread.counts_pods
        super().__init__(counter, spread.max_skew, spread.min_domains, self_limiting=self_limiting)
        self.spread = spread

    def limit(self) -> int:
        if not self.spread.counts_pods:
            return PLENTY
        if self.topology.of_hosts and self.expects_empty_hosts:
            return self.max_skew
        return super().limit()

    def allowed(self) -> Mask:
        return self.counter.by_domain() <= self.limit() - self.spread.self_match

    def allowed_few(self) -> bytes:
        limit = self.limit() - self.spread.self_match
        return bytes([count <= limit for count in self.counter.counts_list()])

    def allows_row(self, row: int) -> bool:
        return bool(self.counter.count[row] <= self.limit() - self.spread.self_match)

    def room(self) -> Counts:
        return np.maximum(self.limit() - self.counter.by_domain(), 0)

    def room_on_new_host(self) -> int:
        return self.limit() if self.topology.of_hosts else PLENTY


class ProtectedSpread(SkewRule):
    """Protects the spread of pods that this plan has placed."""

    protects = True
    foresees = False  # pods that rely on the spread may still be placed in any zone
    gives_up: int | None = None  # the spread of up to so many pods per domain may be broken

    def __init__(self, counter: TopologyCounter, kept: TopologyCounter, max_skew: int, min_domains: int) -> None:
        super().__init__(counter, max_skew, min_domains, self_limiting=True)
        self.kept = kept

    def rows(self, size: int) -> Mask:
        rows, watched = super().rows(size), self.watched
        return rows if watched.all_eligible else rows | ~watched.eligible[:size]

    def overlooks(self, offering: int) -> bool:
        return not self.watched.offerings[offering]

    def allowed(self) -> Mask:
        below = self.counter.by_domain() < self.limit()
        return below if self.foresees else below | self._harmless()

    def allowed_few(self) -> bytes:
        if self.gives_up is not None:
            return self.allowed().tobytes()
        limit = self.limit()
        if self.foresees:
            return bytes([count < limit for count in self.counter.counts_list()])
        pairs = zip(self.counter.counts_list(), self.kept.counts_list(), strict=True)
        return bytes([count < limit or not kept for count, kept in pairs])

    def give_up(self, pods: int | None) -> None:
        self.gives_up = pods
        # Where it accepts any number or none, pods need not be placed one by one because of it.
        self.self_limiting = pods is None or bool((~self._harmless() & (self.counter.by_domain() < self.limit())).any())

    def _harmless(self) -> Mask:
        """By domain: whether any number of pods is accepted, because no pod relies on the spread, few enough do, or it
        is broken already.
        """
        harmless: Mask = self.kept.by_domain() <= (self.gives_up or 0)
        if self.gives_up is not None:
            harmless |= self.counter.by_domain() > self.limit()
        return harmless

    def allows_row(self, row: int) -> bool:
        return not self.kept.count[row] or bool(self.counter.count[row] < self.limit())

    def room(self) -> Counts:
        room = np.maximum(self.limit() - self.counter.by_domain(), 0)
        return room if self.foresees else np.where(self._harmless(), PLENTY, room)


class AffinityRule:
    """Pod affinity: domains with pods that match every term. The first pod of a group that matches its own terms may go
    anywhere.
    """

    def __init__(self, counters: list[TopologyCounter], *, wants_itself: bool) -> None:
        self.counters = counters
        self.wants_itself = wants_itself
        # domains of the first counter to which the rest of the group can follow
        self.first_only_in: frozenset[int] | None = None

    @property
    def first(self) -> bool:
        return self.wants_itself and not any(counter.total for counter in self.counters)

    def rows(self, size: int) -> Mask:
        first = self.first
        allowed = np.ones(size, np.bool_)
        for counter in self.counters:
            domain = counter.topology.domain[:size]
            if first:
                allowed &= domain != NOWHERE
                if self.first_only_in is not None and counter is self.counters[0]:
                    allowed &= np.isin(domain, list(self.first_only_in))
            else:
                allowed &= np.append(counter.by_domain() > 0, np.False_)[domain]
        return allowed

    def allows_new(self, domains: dict[str, str | None]) -> bool:
        first = self.first
        for counter in self.counters:
            topology = counter.topology
            if topology.of_hosts:
                if not first:
                    return False
                continue
            value = domains.get(topology.key)
            if value is None or (not first and not counter.by_domain()[topology.enter(value)]):
                return False
            chosen = self.first_only_in if first and counter is self.counters[0] else None
            if chosen is not None and topology.enter(value) not in chosen:
                return False
        return True
