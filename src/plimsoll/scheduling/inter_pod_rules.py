"""The rules about other pods: affinity, anti-affinity, host ports and topology spread, as questions to counters.

A rule tells two things: which domains allow one more pod of the class now, and, where pods of the class get in each other's way,
how many more each domain can take.
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
    """A rule over one counter. `crowding`: each pod of the class that is placed leaves less room for the next."""

    protects = False  # guards the spread of pods placed earlier; gives way before a pod stays unplaced
    nowhere = True  # whether a node without the label is allowed

    def __init__(self, counter: TopologyCounter, *, self_limiting: bool) -> None:
        self.counter = counter
        self.topology = counter.topology
        self.self_limiting = self_limiting

    def allowed(self) -> Mask:
        """By domain: whether one more pod of the class may come."""
        raise NotImplementedError

    def allowed_few(self) -> bytes:
        """The same, a byte a domain, worked out with plain integers: for keys other than hosts."""
        raise NotImplementedError

    def room(self) -> Counts:
        """By domain: how many more pods of the class may come if nothing else changes. For crowding rules."""
        raise NotImplementedError

    def rows(self, size: int) -> Mask:
        """By row: whether one more pod of the class may come."""
        if not self.topology.of_hosts:
            return self.topology.rows_in(self.allowed_few(), size, nowhere=self.nowhere)
        allowed = self.allowed()
        if self.topology.private_rows >= size and len(allowed) >= size:
            rows: Mask = allowed[:size]
            return rows
        return self.topology.rows_in(allowed.tobytes(), size, nowhere=self.nowhere)

    def allows_row(self, row: int) -> bool:
        """The same for one row, where hosts are domains of their own: the domain has the row's number."""
        raise NotImplementedError

    def room_at(self, rows: NDArray[np.intp]) -> Counts:
        """By given row: how many more pods of the class may come."""
        room = self.room()
        if self.topology.of_hosts and self.topology.private_rows > rows.max(initial=-1):
            here: Counts = room[rows]
            return here
        padded = np.append(room, PLENTY if self.nowhere else 0)
        at: Counts = padded[self.topology.domain[rows]]
        return at

    def room_on_new_host(self) -> int:
        """How many pods of the class may share a new node, if the rule is about hosts."""
        return PLENTY

    def allows_new(self, value: str | None) -> bool:
        """Whether a new node in that domain would do. A new host is a domain of its own, and empty."""
        if self.topology.of_hosts:
            return True
        if value is None:
            return self.nowhere
        return bool(self.allowed_few()[self.topology.enter(value)])

    def overlooks(self, offering: int) -> bool:  # noqa: ARG002 - rules that look at every node have no use for it
        """Whether a pod on a new node of that offering would not count for it."""
        return False


class Exclusion(InterPodRule):
    """Anti-affinity, host ports: not where there is one already."""

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
    """A rule under which domains fill up like water: none may stand further above the lowest than `max_skew`."""

    openable: Mask | None = None  # by domain: a node could be opened there for the class
    _expected = 0
    _expected_for: tuple[int, Mask | None] = (-1, None)

    def __init__(self, counter: TopologyCounter, max_skew: int, min_domains: int, *, self_limiting: bool) -> None:
        super().__init__(counter, self_limiting=self_limiting)
        assert counter.watched is not None, "counters of spreads watch nodes"  # noqa: S101 - what the census promises
        self.watched: Watched = counter.watched
        self.max_skew = max_skew
        self.min_domains = min_domains

    def limit(self) -> int:
        """The most that a domain may hold once the pod is there."""
        return self.max_skew + self.counter.minimum(self.min_domains, self.domains_to_come())

    def domains_to_come(self) -> int:
        """How many domains have no node yet but could: a spread goes there before any domain gets ahead."""
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
        """How high the domains in `rising` may go together: held down by the lowest of those that stay behind. For keys other than
        hosts, of which there are a few: plain integers are sooner compared than arrays are set up.
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
    """The pod's own topology spread."""

    nowhere = False
    expects_empty_hosts = False  # more nodes may follow, and the emptiest host has none

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
    """Not one more where that would break the spread of pods that this plan has placed."""

    protects = True
    foresees = False  # pods that rely on the spread may yet come to any zone
    gives_up: int | None = None  # the spread of so many pods in a domain may be broken, if any may

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
        # Where it allows any number or none, pods need not be placed one by one for its sake.
        self.self_limiting = pods is None or bool((~self._harmless() & (self.counter.by_domain() < self.limit())).any())

    def _harmless(self) -> Mask:
        """By domain: whether any number of pods may come, for nobody minds, or few enough, or those that do have lost already."""
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
    """Pod affinity: where pods that match every term are; the first of a group that wants its own company goes anywhere."""

    def __init__(self, counters: list[TopologyCounter], *, wants_itself: bool) -> None:
        self.counters = counters
        self.wants_itself = wants_itself
        self.first_only_in: frozenset[int] | None = None  # domains of the first counter to which the others can follow

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
