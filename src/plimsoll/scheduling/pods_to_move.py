"""The pods that must move if nodes are removed, grouped for all nodes at once. Used by `removal`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.snapshot import Snapshot

Indexes = NDArray[np.intp]


class MoveGroup(NamedTuple):
    """Pods of one class and shape that must move off a node."""

    pod_class: PodClass
    shape: Shape
    slots: list[int]


def slots_that_move(snapshot: Snapshot, rows: list[int]) -> Indexes:
    """Return the pods on these rows that need another node: not DaemonSet pods, mirror pods or terminating pods."""
    wanted = np.zeros(len(snapshot.nodes), np.bool_)
    wanted[rows] = True
    moves = np.array([not (c.node_bound or c.terminating) for c in snapshot.classes.classes], np.bool_)
    slots = np.flatnonzero(snapshot.pod_rows >= 0)
    return slots[wanted[snapshot.pod_rows[slots]] & moves[snapshot.pod_classes[slots]]] if len(slots) else slots


class PodsToMove:
    """By row of the snapshot: the groups of its pods, largest first, and their total requests."""

    def __init__(self, snapshot: Snapshot, slots: Indexes, shapes: Indexes, taken_for: Indexes) -> None:
        """`shapes` are those of the slots. `taken_for` maps each class to its representative: classes that no rule
        distinguishes are one.
        """
        self._snapshot = snapshot
        rows = snapshot.pod_rows[slots]
        classes = taken_for[snapshot.pod_classes[slots]]
        amounts = snapshot.shape_amounts()
        share = amounts[: len(snapshot.capacity)] / np.maximum(1, snapshot.capacity.max(axis=1, initial=1))[:, None]
        cpu, memory = amounts[0], amounts[1]
        rank = np.argsort(np.lexsort((-memory, -cpu, -share.max(axis=0, initial=0.0))))  # by shape, largest first
        keys = (rows, rank[shapes], _ranks(snapshot, classes)[classes])
        order = np.lexsort(keys[::-1])
        changes = np.zeros(len(slots), np.bool_)
        for key in keys:
            changes |= np.diff(key[order], prepend=-1) != 0
        starts = np.flatnonzero(changes)
        self._slots: list[int] = slots[order].tolist()
        self._starts: list[int] = [*starts.tolist(), len(slots)]  # start of each group among the slots
        self._classes: list[int] = classes[order][starts].tolist()
        self._shapes: list[int] = shapes[order][starts].tolist()
        rows_and_end = np.arange(len(snapshot.nodes) + 1, dtype=rows.dtype)
        self._first_group: list[int] = np.searchsorted(rows[order][starts], rows_and_end).tolist()  # by row
        self.amounts = np.zeros((amounts.shape[0], len(snapshot.nodes)), np.int64)  # resource × row
        for resource in range(amounts.shape[0]):
            sums = np.bincount(rows, amounts[resource][shapes], minlength=len(snapshot.nodes))
            self.amounts[resource] = sums.astype(np.int64)

    def slots(self, row: int) -> list[int]:
        first, last = self._first_group[row : row + 2]
        return self._slots[self._starts[first] : self._starts[last]]

    def groups(self, row: int) -> list[MoveGroup]:
        classes, shapes = self._snapshot.classes.classes, self._snapshot.classes.shapes
        first, last = self._first_group[row : row + 2]
        return [
            MoveGroup(
                classes[self._classes[group]],
                shapes[self._shapes[group]],
                self._slots[self._starts[group] : self._starts[group + 1]],
            )
            for group in range(first, last)
        ]


def _ranks(snapshot: Snapshot, classes: Indexes) -> Indexes:
    """By class: its position in an order that does not depend on which class was met first."""
    known = snapshot.classes.classes
    present = np.flatnonzero(np.bincount(classes, minlength=len(known))).tolist()
    ranks = np.zeros(len(known), np.intp)
    ranks[sorted(present, key=lambda index: _name(known[index]))] = np.arange(len(present))
    return ranks


def _name(pod_class: PodClass) -> tuple[object, ...]:
    return (pod_class.namespace, sorted(pod_class.identity.labels.items()), pod_class.priority, pod_class.index)
