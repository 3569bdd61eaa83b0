"""Groups the pods to place by class and shape, and tracks which are unplaced.

Classes that differ only in labels no selector uses are merged: controllers put labels on pods that distinguish every
revision or every pod (`pod-template-hash`, `pod-index`, the pod's own name), and a plan computes everything once per
class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.pod_equivalence import PodClass, PodClasses, Shape


def merged_classes(classes: PodClasses, indexes: Iterable[int]) -> dict[int, PodClass]:
    """By index of a class: the first of these classes that no selector of any known class distinguishes from it."""
    mentioned = classes.index.labels_mentioned()
    first: dict[object, PodClass] = {}
    known = classes.classes
    return {index: first.setdefault(_as_seen(known[index], mentioned), known[index]) for index in indexes}


def _as_seen(one: PodClass, mentioned: set[str]) -> object:
    """Return everything about a class that a rule reads."""
    labels = one.identity.labels
    return (
        one.namespace,
        tuple(sorted((key, labels[key]) for key in mentioned & labels.keys())),
        tuple(sorted(one.node_selector.items())),
        one.required,
        one.preferred_nodes,
        one.tolerations,
        one.affinity,
        one.anti_affinity,
        one.preferences,
        one.spread,
        one.soft_spread,
        one.ports,
        one.claims,
        one.gates,
        one.unmodelled,
        one.priority,
        one.terminating,
        one.node_bound,
    )


Numbers = NDArray[np.intp]


class PodsToPlace(NamedTuple):
    """By pod: the indexes of its class and its shape. A pod is its index in the given order.

    Of classes that no selector distinguishes, the first represents all.
    """

    class_of: Numbers
    shape_of: Numbers

    def firsts(self) -> Numbers:
        """By pod: the first pod with the same class and shape."""
        both = self.class_of * (1 + self.shape_of.max(initial=0)) + self.shape_of
        _, first, group_of = np.unique(both, return_index=True, return_inverse=True)
        found: Numbers = first[group_of]
        return found


def waiting(classes: PodClasses, pods: Iterable[Pod], daemons: Iterable[Pod] = ()) -> PodsToPlace:
    """Return the pods with merged classes. Selectors of `daemons` may distinguish pods, too."""
    class_indexes, shape_indexes = classes.of_all(pods)
    classes.of_all(daemons)
    stands_for = np.arange(len(classes.classes))
    for index, first in merged_classes(classes, dict.fromkeys(class_indexes)).items():
        stands_for[index] = first.index
    return PodsToPlace(stands_for[np.array(class_indexes, np.intp)], np.array(shape_indexes, np.intp))


class ShapeGroup(NamedTuple):
    """The class and shape that all pods of a group have."""

    pod_class: PodClass
    shape: Shape


class ShapeGroups:
    """The pods to place in order of placement, in groups identified by their position."""

    def __init__(self, classes: PodClasses, waiting: PodsToPlace, order: Numbers) -> None:
        """`order` lists the pods of each group consecutively."""
        class_of, shape_of = waiting.class_of[order], waiting.shape_of[order]
        starts = np.flatnonzero(np.diff(class_of, prepend=-1) | np.diff(shape_of, prepend=-1))
        self._order = order
        self._bounds = np.append(starts, len(order))
        self.sizes = np.diff(self._bounds)  # by group: its pod count
        self._classes = classes
        self._class_of = class_of[starts]
        self._shape_of = shape_of[starts]

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def of(self) -> list[int]:
        """By pod: its group. Computed on demand; most plans never need it."""
        of_pod = np.empty(len(self._order), np.intp)
        of_pod[self._order] = np.repeat(np.arange(len(self)), self.sizes)
        found: list[int] = of_pod.tolist()
        return found

    def __getitem__(self, number: int) -> ShapeGroup:
        return ShapeGroup(self.class_at(number), self.shape_at(number))

    def pods(self, first: int, stop: int) -> list[int]:
        """Return the pods of the groups from `first` to `stop`."""
        found: list[int] = self._order[self._bounds[first] : self._bounds[stop]].tolist()
        return found

    def class_at(self, number: int) -> PodClass:
        return self._classes.classes[int(self._class_of[number])]

    def shape_at(self, number: int) -> Shape:
        return self._classes.shapes[int(self._shape_of[number])]

    def runs(self) -> Iterator[tuple[PodClass, range]]:
        """Yield runs of consecutive groups of one class."""
        starts = np.flatnonzero(np.diff(self._class_of, prepend=-1)).tolist()
        for start, stop in pairwise((*starts, len(self))):
            yield self.class_at(start), range(start, stop)


class UnplacedPods:
    """The unplaced pods by group: at first all. Most groups are placed whole and never listed."""

    def __init__(self, groups: ShapeGroups) -> None:
        self._groups = groups
        self._counts = groups.sizes.copy()
        self._changed: set[int] = set()  # groups of which some pods were placed
        self._parts: dict[int, list[int]] = {}  # unplaced pods of those that were not cleared

    def __getitem__(self, group: int) -> list[int]:
        if not self._counts[group]:
            return []
        part = self._parts.get(group)
        return part if part is not None else self._groups.pods(group, group + 1)

    def __setitem__(self, group: int, pods: list[int]) -> None:
        self._parts[group] = pods
        self._counts[group] = len(pods)
        self._changed.add(group)

    def copy(self) -> UnplacedPods:
        copied = UnplacedPods(self._groups)
        copied._counts, copied._parts, copied._changed = self._counts.copy(), self._parts.copy(), self._changed.copy()
        return copied

    @property
    def pods(self) -> int:
        return int(self._counts.sum())

    def groups(self, until: int | None = None) -> list[int]:
        """Return the groups with unplaced pods."""
        found: list[int] = np.flatnonzero(self._counts[:until]).tolist()
        return found

    def of(self, run: range) -> list[int]:
        """Return the unplaced pods of consecutive groups."""
        if self._changed.isdisjoint(run):
            return self._groups.pods(run.start, run.stop)
        return [pod for group in run for pod in self[group]]

    def clear(self, run: range) -> None:
        """Mark all pods of these groups as placed."""
        self._counts[run.start : run.stop] = 0
        self._changed.update(run)


def distinct(numbers: Numbers) -> tuple[list[int], Numbers]:
    """Return each number once in order of first occurrence, and for each given number its position among those."""
    first = np.full(1 + numbers.max(initial=-1), -1, np.intp)  # by number: its first occurrence
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    known = np.flatnonzero(first >= 0)
    once = known[first[known].argsort()]
    place_of = np.zeros_like(first)
    place_of[once] = np.arange(len(once))
    return once.tolist(), place_of[numbers]
