"""Domains fill up like water: pod after pod to the lowest, as long as there is one that may rise."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.scheduling.water_filling import water_fill


def one_after_the_other(counts: Sequence[int], pods: int, limit: int, room: Sequence[int] | None) -> list[int]:
    """The same, a pod at a time. Once a domain has no room left that would have to rise with the others, all stop."""
    shares = [0] * len(counts)
    able = [d for d, count in enumerate(counts) if count < limit and (room is None or room[d] > 0)]
    for _ in range(pods):
        level = min((counts[d] + shares[d] for d in able), default=limit)
        lowest = [d for d in able if counts[d] + shares[d] == level]
        full = [d for d in lowest if room is not None and shares[d] == room[d]]
        if level >= limit or full:
            break
        shares[lowest[0]] += 1
    return shares


@given(st.data())
def test_as_pod_after_pod(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 9), max_size=6))
    rooms = st.lists(st.sampled_from((0, 1, 2, 5, 50)), min_size=len(counts), max_size=len(counts))
    room = data.draw(st.none() | rooms)
    pods, limit = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 14) | st.just(2**31))
    assert water_fill(counts, pods, limit, room) == one_after_the_other(counts, pods, limit, room)


def test_the_lowest_come_first() -> None:
    assert water_fill([3, 0, 1], 4, 2**31) == [0, 3, 1]


def test_what_is_full_holds_back_the_others() -> None:
    assert water_fill([0, 0, 5], 9, 2**31, [2, 9, 9]) == [2, 2, 0]
