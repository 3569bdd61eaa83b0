"""Who is to be placed: pods as numbers, and those together that ask for the same and for as much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types import Pod
from plimsoll.scheduling.alike import standing_for
from plimsoll.scheduling.classes import Classes, PodClass, Shape

Numbers = NDArray[np.intp]


class Waiting(NamedTuple):
    """By pod, its class and its shape, as their indexes. A pod is a number: its place in the order in which all pods were given.

    Of classes that no selector tells apart, the first stands for all.
    """

    class_of: Numbers
    shape_of: Numbers

    def firsts(self) -> Numbers:
        """By pod: the first that asks for the same and for as much."""
        both = self.class_of * (1 + self.shape_of.max(initial=0)) + self.shape_of
        _, first, group_of = np.unique(both, return_index=True, return_inverse=True)
        found: Numbers = first[group_of]
        return found


def waiting(classes: Classes, pods: Iterable[Pod], daemons: Iterable[Pod] = ()) -> Waiting:
    """The pods as numbers. Selectors of `daemons` may tell pods apart, too."""
    class_indexes, shape_indexes = classes.of_all(pods)
    classes.of_all(daemons)
    stands_for = np.arange(len(classes.classes))
    for index, first in standing_for(classes, dict.fromkeys(class_indexes)).items():
        stands_for[index] = first.index
    return Waiting(stands_for[np.array(class_indexes, np.intp)], np.array(shape_indexes, np.intp))


class Group(NamedTuple):
    """Pods that ask for the same and for as much."""

    pod_class: PodClass
    shape: Shape
    pods: list[int]


class Groups:
    """The pods that wait in the order in which they are to be placed, in groups, each known by its place in that order."""

    def __init__(self, classes: Classes, waiting: Waiting, order: Numbers) -> None:
        """`order` has the pods of a group one after the other."""
        class_of, shape_of = waiting.class_of[order], waiting.shape_of[order]
        starts = np.flatnonzero(np.diff(class_of, prepend=-1) | np.diff(shape_of, prepend=-1))
        bounds = [*starts.tolist(), len(order)]
        pods = order.tolist()
        self.pods: list[list[int]] = [pods[start:stop] for start, stop in pairwise(bounds)]
        of_pod = np.empty(len(order), np.intp)
        of_pod[order] = np.repeat(np.arange(len(starts)), np.diff(bounds))
        self.of: list[int] = of_pod.tolist()  # by pod
        self._classes = classes
        self._class_of = class_of[starts]
        self.shape_of: list[int] = shape_of[starts].tolist()  # its index

    def __len__(self) -> int:
        return len(self.pods)

    def __getitem__(self, number: int) -> Group:
        return Group(self.class_at(number), self.shape_at(number), self.pods[number])

    def class_at(self, number: int) -> PodClass:
        return self._classes.classes[int(self._class_of[number])]

    def shape_at(self, number: int) -> Shape:
        return self._classes.shapes[self.shape_of[number]]

    def runs(self) -> Iterator[tuple[PodClass, range]]:
        """Groups of one class that follow one another."""
        starts = np.flatnonzero(np.diff(self._class_of, prepend=-1)).tolist()
        for start, stop in pairwise((*starts, len(self.pods))):
            yield self.class_at(start), range(start, stop)


def distinct(numbers: Numbers) -> tuple[list[int], Numbers]:
    """Each number once, in the order in which they come up, and for each of the given ones its place among those."""
    place_of: dict[int, int] = {}
    places = [place_of.setdefault(number, len(place_of)) for number in numbers.tolist()]
    return list(place_of), np.array(places, np.intp)
