"""Counts and rules about hosts as plain integers, for placing thousands of pods one by one on a fixed set of nodes.

While no node is added or removed, a rule about hosts compares two small integers. Reading each from an array costs more
than the comparison, so counts are copied out of the arrays first and written back at the end. Used by `bulk_placement`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import InterPodRule, OwnSpreadRule, ProtectedSpread, SkewRule
from plimsoll.scheduling.topology import TopologyCounter


class HostCounter:
    """The counts of one host counter by row; every row is its own host with the row's number."""

    __slots__ = ("_counter", "_rows", "at_low", "count", "eligible", "low")

    def __init__(self, counter: TopologyCounter, size: int) -> None:
        self._counter = counter
        self.count: list[int] = counter.by_domain()[:size].tolist()
        watched = counter.watched
        self._rows: list[int] = []  # rows of eligible hosts
        # the lowest count of any eligible host, and the number of hosts with it; -1 without eligible hosts
        self.low = -1
        self.at_low = 0
        if watched is not None and watched.there_count:
            there = watched.there.nonzero()[0]
            counts = counter.by_domain()[there]
            self._rows, self.low = there.tolist(), int(counts.min())
            self.at_low = int(np.count_nonzero(counts == self.low))
        # By row, whether the host is eligible; None if all are.
        self.eligible: list[bool] | None = None
        if watched is not None and not watched.all_eligible:
            self.eligible = watched.eligible.tolist()

    def find_low(self) -> None:
        """Recompute the lowest count after the last host with it changed."""
        counts = [self.count[row] for row in self._rows]
        self.low = min(counts)
        self.at_low = counts.count(self.low)

    def put_back(self) -> None:
        self._counter.replace(self.count)


class HostCheck(NamedTuple):
    """One rule about hosts: a row passes if its count is at most `most`, relative to the lowest host if `from_low`."""

    host_counter: HostCounter
    most: int
    from_low: bool
    kept: HostCounter | None  # the rule applies only where this counter is above zero


class HostCounters:
    """All host counters that some classes read or change, copied out of their arrays."""

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
