"""Counts and rules about hosts as plain integers, for placing thousands of pods one by one on nodes that stay as they are.

While no node comes or goes, a rule about hosts is a comparison of two small numbers. Asked of an array, each costs more than the
comparison; so counts are taken out of the arrays first and put back at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.inter_pod_rules import EvenlySpread, KeepsOthersSpread, Level, Rule
from plimsoll.scheduling.topology import Counter


class HostTally:
    """What one counter of hosts counts, by row: every row has a host of its own, under its own number."""

    __slots__ = ("_counter", "_rows", "at_low", "count", "eligible", "low")

    def __init__(self, counter: Counter, size: int) -> None:
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

    tally: HostTally
    most: int
    from_low: bool
    kept: HostTally | None  # the rule only matters where there are some of these


class HostTallies:
    """All counters of hosts that some classes look at or change, taken out of their arrays."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tallies: dict[int, HostTally] = {}

    def checks(self, view: View) -> list[HostCheck]:
        return [check for rule in view.host_rules if (check := self._check(rule)) is not None]

    def bumped(self, view: View) -> list[HostTally]:
        return [self._tally(counter) for counter in view.host_bumps]

    def put_back(self) -> None:
        for tally in self._tallies.values():
            tally.put_back()

    def _tally(self, counter: Counter) -> HostTally:
        tally = self._tallies.get(id(counter))
        if tally is None:
            tally = self._tallies[id(counter)] = HostTally(counter, self._size)
        return tally

    def _check(self, rule: Rule) -> HostCheck | None:
        tally = self._tally(rule.counter)
        if not isinstance(rule, Level):
            return HostCheck(tally, 0, from_low=False, kept=None)
        from_low = rule.watched.there_count >= max(1, rule.min_domains)
        if isinstance(rule, KeepsOthersSpread):
            return HostCheck(tally, rule.max_skew - 1, from_low, self._tally(rule.kept))
        if isinstance(rule, EvenlySpread) and not rule.spread.counts_pods:
            return None
        own = isinstance(rule, EvenlySpread) and rule.spread.self_match
        return HostCheck(tally, rule.max_skew - own, from_low, kept=None)
