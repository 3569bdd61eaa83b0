"""Values for pods that leave in a given sequence of kinds, such that as few as possible of those that have one get another.

Values must rise along the sequence. Which pod of a kind stands at which of its places is free, so the pods that keep their
value are a longest chain: pairs of a place and a pod of its kind in which both rise, with room between them for the places in
between. It is found as a longest rising subsequence is, in n log n of the pairs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

# Between neighbours at first, so that a newcomer finds a free value between any two.
SPACING = 1000


class Place(NamedTuple, Generic[K]):
    uid: str
    kind: K
    value: int | None  # what the pod carries


def values_for(sequence: Sequence[K], pods: Sequence[Place[K]], ceiling: int) -> dict[str, int]:
    """A value for each pod, by UID, from 0 to the ceiling. `sequence` has each kind as often as there are pods of it.

    Pods that need a value take the free places of their kind in the order given, from the first to leave on.
    """
    if len(sequence) > ceiling + 1:
        raise ValueError(f"{len(sequence)} pods do not find a value each between 0 and the ceiling of {ceiling}")
    kept = _longest_chain(sequence, pods, ceiling)
    chosen = {uid for uid, _ in kept.values()}
    rest: dict[K, list[str]] = {}
    for pod in pods:
        if pod.uid not in chosen:
            rest.setdefault(pod.kind, []).append(pod.uid)
    values = _filled([kept[at][1] if at in kept else None for at in range(len(sequence))], ceiling)
    takers = {kind: iter(uids) for kind, uids in rest.items()}
    return {
        kept[at][0] if at in kept else next(takers[kind]): values[at] for at, kind in enumerate(sequence)
    }  # fmt: skip


def _longest_chain(sequence: Sequence[K], pods: Sequence[Place[K]], ceiling: int) -> dict[int, tuple[str, int]]:
    """The places at which a pod that has a value keeps it: by place, the pod and its value."""
    by_kind: dict[K, list[tuple[int, str]]] = {}
    for pod in pods:
        if pod.value is not None:
            by_kind.setdefault(pod.kind, []).append((pod.value, pod.uid))
    for found in by_kind.values():
        found.sort(reverse=True)
    # value - place must not fall along the chain: then there is a value for every place in between.
    ends: list[int] = []  # by length of a chain, less one: the least value - place that such a chain can end with
    last: list[_Link] = []
    beyond = ceiling - len(sequence) + 1
    for at, kind in enumerate(sequence):
        for value, uid in by_kind.get(kind, ()):
            slack = value - at
            if not 0 <= slack <= beyond:
                continue
            length = bisect_right(ends, slack)
            link = _Link(at, uid, value, last[length - 1] if length else None)
            if length == len(ends):
                ends.append(slack)
                last.append(link)
            else:
                ends[length] = slack
                last[length] = link
    kept: dict[int, tuple[str, int]] = {}
    step = last[-1] if last else None
    while step is not None:
        kept[step.at] = step.uid, step.value
        step = step.before
    return kept


class _Link(NamedTuple):
    at: int
    uid: str
    value: int
    before: _Link | None


def _filled(values: Sequence[int | None], ceiling: int) -> list[int]:
    """Rising values with those that are given in their places."""
    count = len(values)
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if not known:
        step = min(SPACING, max(1, ceiling // (count + 1)))
        top = ceiling - step if ceiling - step >= (count - 1) * step else ceiling
        return [top - step * (count - 1 - at) for at in range(count)]
    filled = [0] * count
    first, lowest = known[0]
    step = min(SPACING, max(1, lowest // (first + 1)))
    for at in range(first):
        filled[at] = lowest - step * (first - at)
    for (at, value), (beyond, higher) in pairwise([*known, (count, ceiling + 1)]):
        gap = beyond - at
        step_up = min(SPACING, (higher - value) // gap)
        for offset in range(gap):
            between = (higher - value) * offset // gap
            filled[at + offset] = value + (between if beyond < count else step_up * offset)
    return filled
