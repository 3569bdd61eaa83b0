"""The order of placement: hard-to-place pods first, unconstrained pods last. Used by `plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.model import HOSTNAME
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_groups import Numbers, PodsToPlace


class Sized(NamedTuple):
    """A shape and its size: all amounts weighted together."""

    shape: Shape
    size: float

    @classmethod
    def by(cls, weights: Sequence[float], shape: Shape) -> Self:
        return cls(shape, sum([weights[resource] * amount for resource, amount in shape]))


def rank(me: PodClass) -> int:
    """Return how hard a class is to place; 0 for the hardest."""
    if me.ports or any(term.topology_key == HOSTNAME for term in me.anti_affinity):
        return 0
    return 1 if me.spread else 2 if me.affinity or me.anti_affinity else 3


def sizes_of(shapes: Mapping[int, Sized]) -> NDArray[np.float64]:
    """By index of the shape: its size."""
    sizes = np.zeros(1 + max(shapes, default=0))
    sizes[[*shapes]] = [size for _, size in shapes.values()]
    return sizes


def hardest_first(waiting: PodsToPlace, in_play: Sequence[PodClass], shapes: Mapping[int, Sized]) -> Numbers:
    """Order pods: those that need nodes of their own, then those with inter-pod rules, then unconstrained ones.

    Groups of a class are consecutive, the largest shape first. Equally hard classes keep the order of `in_play`, so the
    order in which earlier requests met them has no influence.
    """
    class_of, shape_of = waiting
    largest = np.zeros(1 + max((me.index for me in in_play), default=0))  # by class
    np.maximum.at(largest, class_of, sizes_of(shapes)[shape_of])
    ordered = sorted(in_play, key=lambda me: (-me.priority, rank(me), -largest[me.index]))
    place_of = _places(ordered)
    place_of_size = {size: place for place, size in enumerate(sorted({s.size for s in shapes.values()}, reverse=True))}
    place_of_shape = np.zeros(1 + max(shapes, default=0), np.intp)
    place_of_shape[[*shapes]] = [place_of_size[size] for _, size in shapes.values()]
    places = place_of[class_of] * len(place_of_size) + place_of_shape[shape_of]
    if len(place_of_size) == len(shapes):  # sizes are unique per shape
        order: Numbers = places.argsort(kind="stable")
    else:
        order = np.lexsort((waiting.firsts(), places))
    return order


def by_size(waiting: PodsToPlace, in_play: Sequence[PodClass], shapes: Mapping[int, Sized]) -> Numbers:
    """Order pods one by one, the largest first: by CPU, then by memory."""
    class_of, shape_of = waiting
    cpu, memory = np.zeros((2, 1 + max(shapes, default=0)), np.int64)  # by shape
    for index, (shape, _) in shapes.items():
        amounts = dict(shape)
        cpu[index], memory[index] = amounts.get(0, 0), amounts.get(1, 0)
    priority_of = np.zeros(1 + max((me.index for me in in_play), default=0), np.int64)  # by class
    for me in in_play:
        priority_of[me.index] = me.priority
    place_of = _places(in_play)
    keys = (waiting.firsts(), place_of[class_of], -memory[shape_of], -cpu[shape_of], -priority_of[class_of])
    order: Numbers = np.lexsort(keys)
    return order


def _places(classes: Sequence[PodClass]) -> Numbers:
    """By class: its position in this list."""
    places = np.zeros(1 + max((me.index for me in classes), default=0), np.intp)
    places[[me.index for me in classes]] = np.arange(len(classes))
    return places
