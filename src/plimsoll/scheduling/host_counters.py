"""Counts and rules about hosts as plain integers, for placing thousands of pods one by one on nodes that stay as they are.

While no node comes or goes, a rule about hosts is a comparison of two small numbers. Asked of an array, each costs more than the
comparison; so counts are taken out of the arrays first and put back at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import InterPodRule, OwnSpreadRule, ProtectedSpread, SkewRule
from plimsoll.scheduling.topology import TopologyCounter


class HostCounter:
    """What one counter of hosts counts, by row: every row has a host of its own, under its own number."""

    __slots__ = ("_counter", "_rows", "at_low", "count", "eligible", "low")

    def __init__(self, counter: TopologyCounter, size: int) -> None:
        self._counter = counter
        self.count: list[int] = counter.by_domain()[:size].tolist()
        watched = counter.watched
        self._rows: list[int] = []  # of hosts that are looked at
        self.low = -1  # the fewest on any of them, and how many have so few; -1 where none is looked at
        self.at_low = 0
        if watched is not None and watched.there_count:
            there = watched.there.nonzero()[0]
            counts = counter.by_domain()[there]
            self._rows, self.low = there.tolist(), int(counts.min())
            self.at_low = int(np.count_nonzero(counts == self.low))
        # Where not every host counts: by row, whether it does.
        self.eligible: list[bool] | None = None
        if watched is not None and not watched.all_eligible:
            self.eligible = watched.eligible.tolist()

    def find_low(self) -> None:
        """Once no host has so few any more."""
        counts = [self.count[row] for row in self._rows]
        self.low = min(counts)
        self.at_low = counts.count(self.low)

    def put_back(self) -> None:
        self._counter.replace(self.count)


class HostCheck(NamedTuple):
    """One rule about hosts: a row will do if it has no more than `most`, counted from the lowest host if `from_low`."""

    host_counter: HostCounter
    most: int
    from_low: bool
    kept: HostCounter | None  # the rule only matters where there are some of these


class HostCounters:
    """All counters of hosts that some classes look at or change, taken out of their arrays."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._host_counters: dict[int, HostCounter] = {}

    def checks(self, constraints: ClassConstraints) -> list[HostCheck]:
        return [check for rule in constraints.host_rules if (check := self._check(rule)) is not None]

    def incremented(self, constraints: ClassConstraints) -> list[HostCounter]:
        return [self._host_counter(counter) for counter in constraints.host_increments]

    def put_back(self) -> None:
        for host_counter in self._host_counters.values():
            host_counter.put_back()

    def _host_counter(self, counter: TopologyCounter) -> HostCounter:
        host_counter = self._host_counters.get(id(counter))
        if host_counter is None:
            host_counter = self._host_counters[id(counter)] = HostCounter(counter, self._size)
        return host_counter

    def _check(self, rule: InterPodRule) -> HostCheck | None:
        host_counter = self._host_counter(rule.counter)
        if not isinstance(rule, SkewRule):
            return HostCheck(host_counter, 0, from_low=False, kept=None)
        from_low = rule.watched.there_count >= max(1, rule.min_domains)
        if isinstance(rule, ProtectedSpread):
            return HostCheck(host_counter, rule.max_skew - 1, from_low, self._host_counter(rule.kept))
        if isinstance(rule, OwnSpreadRule) and not rule.spread.counts_pods:
            return None
        own = isinstance(rule, OwnSpreadRule) and rule.spread.self_match
        return HostCheck(host_counter, rule.max_skew - own, from_low, kept=None)
