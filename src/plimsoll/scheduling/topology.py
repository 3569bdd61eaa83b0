"""Domains of topology keys, and pod counts per domain.

Every inter-pod rule (affinity, anti-affinity, spread, host ports) needs one number: how many pods that match X are in
the domain of this node? A `TopologyCounter` holds it for one X and one key and is updated with each placed pod, so that
no rule iterates over pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.model import HOSTNAME

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]
Domains = NDArray[np.int32]

NODES = ""  # stands for a key: every node is a domain, whatever its labels; used by host ports
NOWHERE = -1  # the domain of a node that lacks the label


class Topology:
    """The domain of each node for one topology key."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.of_hosts = key in (HOSTNAME, NODES)
        self.values: list[str] = []
        self.domain: Domains = np.full(capacity, NOWHERE, np.int32)  # by row
        self.private_rows = 0  # the first so many rows are domains of their own with the row's number
        self._index: dict[str, int] = {}
        self._rows_in: dict[tuple[bytes, bool], Mask] = {}  # cached masks by allowed domains
        self._rows_in_size = -1

    def enter(self, value: str) -> int:
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.values)
            self.values.append(value)
        return index

    def put(self, row: int, value: str | None) -> None:
        self.domain[row] = NOWHERE if value is None else self.enter(value)
        if self.private_rows == row == self.domain[row]:
            self.private_rows += 1

    def put_hosts(self, rows: slice, names: list[str]) -> None:
        """Set the domains of opened nodes, where each is its own."""
        self._rows_in_size = -1
        known = len(self.values)
        if self._index.keys().isdisjoint(names):
            self._index.update(zip(names, range(known, known + len(names)), strict=True))
            self.values += names
            self.domain[rows] = np.arange(known, known + len(names))
        else:
            self.domain[rows] = [self.enter(name) for name in names]
        if self.private_rows == rows.start and int(self.domain[rows.start]) == rows.start:
            self.private_rows = rows.stop

    def put_together(self, rows: slice, values: Sequence[str | None], nodes: Sequence[int]) -> None:
        """Set the domains of opened nodes, where many share one: `nodes[i]` of them are in `values[i]`, then the next."""
        self._rows_in_size = -1
        self.domain[rows] = np.repeat([NOWHERE if value is None else self.enter(value) for value in values], nodes)

    def each_row_its_own(self, rows: int) -> bool:
        """Whether each of the first rows is a host of its own with the row's number."""
        return self.of_hosts and self.private_rows >= rows

    def rows_in(self, allowed: bytes, size: int, *, nowhere: bool) -> Mask:
        """By row: whether its domain is allowed (one byte per domain, in order); `nowhere` for rows without one."""
        if size != self._rows_in_size:
            self._rows_in.clear()
            self._rows_in_size = size
        key = (allowed, nowhere)
        rows = self._rows_in.get(key)
        if rows is None:
            padded = np.frombuffer(allowed + bytes((nowhere,)), np.bool_)  # NOWHERE is -1, the last element
            rows = self._rows_in[key] = padded[self.domain[:size]]
        return rows

    def forget(self, first: int, names: list[str]) -> None:
        """Remove the rows from `first` on, the last ones opened."""
        self._rows_in_size = -1
        self.domain[first:] = NOWHERE
        if self.of_hosts:
            for name in reversed(names):
                self.values.pop()
                del self._index[name]
            self.private_rows = min(self.private_rows, first)

    def reserve(self, capacity: int) -> None:
        more = capacity - len(self.domain)
        self.domain = np.concatenate((self.domain, np.full(more, NOWHERE, np.int32)))


class Watched:
    """The nodes that spreads with the same policies consider: only their pods count, and only their domains exist."""

    def __init__(self, topology: Topology, eligible: Mask, offerings: Mask) -> None:
        self.topology = topology
        self.eligible = eligible  # by row
        self.offerings = offerings  # by offering: whether a new node is eligible
        self.there: Mask = np.zeros(0, np.bool_)  # by domain: whether it has an eligible node
        self.there_count = 0
        self.version = 0
        self.all_eligible = True  # over the rows so far
        self._at_first = eligible.copy()
        self.changed()

    def changed(self) -> None:
        """Recompute the existing domains after eligible nodes were added or removed."""
        self.there = np.zeros(len(self.topology.values) + 1, np.bool_)
        self.there[self.topology.domain[self.eligible]] = True  # NOWHERE is -1, the last element, which is cut off
        self.there = self.there[:-1]
        self.there_count = int(np.count_nonzero(self.there))
        self.version += 1

    def appeared(self, rows: slice, offering: NDArray[np.int64]) -> None:
        """Add new nodes without counted pods, by node its offering."""
        eligible = self.offerings[offering]
        self.eligible[rows] = eligible
        domains = self.topology.domain[rows]
        if not eligible.all():
            self.all_eligible = False
            domains = domains[eligible]
        self.fit()
        self.there[domains] = True  # a lane without the label is not eligible
        there_count = int(np.count_nonzero(self.there))
        if there_count != self.there_count:
            self.there_count = there_count
            self.version += 1

    def vanished(self, first: int) -> None:
        """Remove the last new nodes, from row `first` on."""
        self.eligible[first:] = False
        self.changed()

    def count_node(self, row: int, *, there: bool) -> None:
        self.eligible[row] = there and self._at_first[row]
        self.changed()

    def fit(self) -> None:
        """Resize to all known domains."""
        known = len(self.topology.values)
        if known > len(self.there):
            self.there = np.concatenate((self.there, np.zeros(known - len(self.there), np.bool_)))

    def reserve(self, rows: int) -> None:
        self.eligible = np.concatenate((self.eligible, np.zeros(rows - len(self.eligible), np.bool_)))


class TopologyCounter:
    """The number of matching pods per domain of a key; with `watched`, only on the nodes that a spread considers."""

    def __init__(self, topology: Topology, key: tuple[object, ...] = (), watched: Watched | None = None) -> None:
        self.topology = topology
        self.key = key  # what is counted
        self.watched = watched
        self.count: Counts = np.zeros(max(8, len(topology.values)), np.int64)
        self.total = 0
        self.at_first = 0  # the count before the plan
        self.version = 0
        # The same counts as plain integers, where domains are few: small sums are faster without arrays.
        self.plain_counts: list[int] = []
        self._low = -1  # the lowest count of an existing domain, and the number of domains with it; -1: unknown
        self._at_low = 0
        self._low_version = -1  # version of `watched` at that time

    def _fit(self) -> None:
        """Resize to all known domains."""
        known = len(self.topology.values)
        if known > len(self.count):
            more = max(known, 2 * len(self.count)) - len(self.count)
            self.count = np.concatenate((self.count, np.zeros(more, np.int64)))
        if not self.topology.of_hosts and known > len(self.plain_counts):
            self.plain_counts = self.count[:known].tolist()

    def add(self, rows: NDArray[np.intp], amounts: Counts | int) -> None:
        """Add matching pods on rows (negative: remove); a row may occur twice."""
        if self.watched is not None:
            keep = self.watched.eligible[rows]
            if not keep.all():
                rows = rows[keep]
                amounts = amounts if isinstance(amounts, int) else amounts[keep]
        domains = self.topology.domain[rows]
        if (domains < 0).any():
            keep = domains >= 0
            domains = domains[keep]
            amounts = amounts if isinstance(amounts, int) else amounts[keep]
        if not len(domains):
            return
        self._fit()
        np.add.at(self.count, domains, amounts)
        if not self.topology.of_hosts:
            self.plain_counts = self.count[: len(self.topology.values)].tolist()
        self.total += amounts * len(domains) if isinstance(amounts, int) else int(amounts.sum())
        self._low = -1
        self.version += 1

    def add_one(self, row: int, amount: int = 1) -> None:
        domain = int(self.topology.domain[row])
        if domain < 0 or (self.watched is not None and not self.watched.eligible[row]):
            return
        if domain >= len(self.count):
            self._fit()
        before = int(self.count[domain])
        self.count[domain] = before + amount
        if not self.topology.of_hosts:
            self.counts_list()[domain] = before + amount
        self.total += amount
        self.version += 1
        if before == self._low:
            self._at_low -= 1
            if not self._at_low:
                self._low = -1
        if amount < 0:
            self._low = -1

    def add_in_domains(self, pods: Iterable[tuple[int, int]]) -> None:
        """Add matching pods per domain, on eligible nodes."""
        self._fit()
        for domain, amount in pods:
            if amount:
                self.plain_counts[domain] += amount
                self.count[domain] = self.plain_counts[domain]
                self.total += amount
        self._low = -1
        self.version += 1

    def replace(self, counts: list[int]) -> None:
        """Replace the counts of the first domains, which were changed elsewhere."""
        self._fit()
        self.count[: len(counts)] = counts
        self.total = int(self.count.sum())
        self._low = -1
        self.version += 1

    def by_domain(self) -> Counts:
        known = len(self.topology.values)
        if known > len(self.count):
            self._fit()
        return self.count[:known]

    def counts_list(self) -> list[int]:
        """By domain, as plain integers; for keys other than hosts."""
        if len(self.plain_counts) < len(self.topology.values):
            self._fit()
        return self.plain_counts

    def minimum(self, min_domains: int, expected: int = 0) -> int:
        """Return the lowest count of any domain: 0 while there are fewer than `min_domains`, or while `expected` empty
        ones may follow.
        """
        watched = self.watched
        if expected or watched is None or watched.there_count < max(1, min_domains):
            return 0
        if self._low < 0 or self._low_version != watched.version:
            watched.fit()
            counts = self.by_domain()[watched.there]
            self._low = int(counts.min())
            self._at_low = int(np.count_nonzero(counts == self._low))
            self._low_version = watched.version
        return self._low
