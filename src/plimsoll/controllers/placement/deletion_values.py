"""Deletion values for pods that are deleted in a given sequence of groups, changing as few existing values as possible.

Values rise along the sequence. Which pod of a group takes which of its positions is free, so the pods that keep their value form
a longest chain: pairs of a position and a pod of its group in which both rise, with enough values between them for the positions
in between. It is found like a longest increasing subsequence, in O(n log n) of the pairs. `deletion_order` calls this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

# Distance between neighbours at first, so that a new pod finds a free value between any two.
SPACING = 1000


class OrderedPod(NamedTuple, Generic[K]):
    uid: str
    group: K
    value: int | None  # None: the pod has no value yet


def values_for(sequence: Sequence[K], pods: Sequence[OrderedPod[K]], ceiling: int) -> dict[str, int]:
    """A value for each pod, by UID, from 0 to the ceiling. `sequence` has each group as often as there are pods of it.

    Pods that need a value take the free positions of their group in the order given.
    """
    if len(sequence) > ceiling + 1:
        raise ValueError(f"{len(sequence)} pods need distinct values between 0 and the ceiling of {ceiling}")
    kept = _longest_chain(sequence, pods, ceiling)
    chosen = {uid for uid, _ in kept.values()}
    rest: dict[K, list[str]] = {}
    for pod in pods:
        if pod.uid not in chosen:
            rest.setdefault(pod.group, []).append(pod.uid)
    values = _filled([kept[at][1] if at in kept else None for at in range(len(sequence))], ceiling)
    takers = {group: iter(uids) for group, uids in rest.items()}
    return {
        kept[at][0] if at in kept else next(takers[group]): values[at] for at, group in enumerate(sequence)
    }  # fmt: skip


def _longest_chain(sequence: Sequence[K], pods: Sequence[OrderedPod[K]], ceiling: int) -> dict[int, tuple[str, int]]:
    """The pods that keep their value: by position, the UID and the value."""
    by_group: dict[K, list[tuple[int, str]]] = {}
    for pod in pods:
        if pod.value is not None:
            by_group.setdefault(pod.group, []).append((pod.value, pod.uid))
    for found in by_group.values():
        found.sort(reverse=True)
    # value - position must not fall along the chain: then there is a value for every position in between.
    ends: list[int] = []  # by chain length - 1: the least value - position with which such a chain can end
    last: list[_Link] = []
    beyond = ceiling - len(sequence) + 1
    for at, group in enumerate(sequence):
        for value, uid in by_group.get(group, ()):
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
    """Rising values that include the given ones at their positions."""
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
