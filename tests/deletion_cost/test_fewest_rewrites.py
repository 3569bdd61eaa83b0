"""The search for the fewest rewrites, against definitions that are tried out in every possible way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from plimsoll.controllers.deletion_cost import rewrites
from plimsoll.controllers.deletion_cost.order import least_skews, skew
from plimsoll.controllers.deletion_cost.rewrites import ZoneValues, even, fewest_rewrites

CEILING = 100
Zones = Mapping[str, ZoneValues]


# ── the definitions, as plainly as they can be said ──────────────────────────────────────────────────────────────────


class Pods:
    """The pods of a case as tuples (value, zone, ours), and every state that a scale-down can pass through."""

    def __init__(self, zones: Zones) -> None:
        self.all = frozenset(
            (uid, value, name, is_ours)
            for name, zone in zones.items()
            for uid, value, is_ours in (
                *((uid, value, True) for uid, value in zone.ours.items()),
                *((f"{name}-fixed-{i}", value, False) for i, value in enumerate(zone.fixed)),
            )
        )

    def deletions(self) -> Iterator[tuple[frozenset[tuple[str, int, str, bool]], tuple[str, int, str, bool]]]:
        """What is there, and a pod that Kubernetes might delete then: one of the lowest value, any of them."""
        seen = set()
        waiting = [self.all]
        while waiting:
            left = waiting.pop()
            if not left or left in seen:
                continue
            seen.add(left)
            lowest = min(value for _, value, _, _ in left)
            for pod in left:
                if pod[1] == lowest:
                    yield left, pod
                    waiting.append(left - {pod})


def leaves_from_a_fullest_zone(zones: Zones) -> bool:
    """The promise: each pod of ours leaves from a zone that is the fullest of those that have pods of ours left."""
    for left, (_, _, zone, is_ours) in Pods(zones).deletions():
        count = Counter(name for _, _, name, _ in left)
        with_ours = {name for _, _, name, theirs in left if theirs}
        if is_ours and any(count[other] > count[zone] for other in with_ours):
            return False
    return True


def least_skew_at_every_size(zones: Zones) -> bool:
    """What users see: at every n, zones as even as deletion alone can make them."""
    pods = Pods(zones)
    counts = Counter(name for _, _, name, _ in pods.all)
    least = least_skews(counts)
    for left, pod in pods.deletions():
        after = Counter(dict.fromkeys(counts, 0))
        after.update(name for _, _, name, _ in left - {pod})
        deleted = len(pods.all) - len(left) + 1
        if deleted < len(pods.all) and skew(after) > least[deleted]:
            return False
    return True


def by_trying_everything(zones: Zones, values: range, fewer_than: int) -> int | None:
    """The least number of rewrites below `fewer_than` that makes it even, with distinct values in each zone."""
    pods = [(name, uid) for name, zone in zones.items() for uid in zone.ours]
    for number in range(fewer_than):
        for chosen in combinations(pods, number):
            for new in product(values, repeat=number):
                changed = apply(zones, {uid: value for (_, uid), value in zip(chosen, new, strict=True)})
                if all(len(set(z.ours.values())) == len(z.ours) for z in changed.values()) and even(changed):
                    return number
    return None


def apply(zones: Zones, moves: Mapping[str, int]) -> dict[str, ZoneValues]:
    return {
        name: ZoneValues({uid: moves.get(uid, value) for uid, value in zone.ours.items()}, zone.fixed)
        for name, zone in zones.items()
    }


# ── cases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def zones_of(values: Mapping[str, list[int]], fixed: Mapping[str, list[int]] | None = None) -> dict[str, ZoneValues]:
    return {
        name: ZoneValues({f"{name}{i}": value for i, value in enumerate(its)}, tuple((fixed or {}).get(name, ())))
        for name, its in values.items()
    }


def values_near_the_ceiling(most: int, *, unique: bool) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(CEILING - 6, CEILING), min_size=1, max_size=most, unique=unique)


@st.composite
def all_ours(draw: st.DrawFn, most: int = 4, *, unique: bool = True) -> dict[str, ZoneValues]:
    names = "abcd"[: draw(st.integers(2, 4))]
    return zones_of({name: draw(values_near_the_ceiling(most, unique=unique)) for name in names})


@st.composite
def with_others(draw: st.DrawFn) -> dict[str, ZoneValues]:
    names = "abc"[: draw(st.integers(2, 3))]
    theirs = st.lists(st.integers(CEILING - 7, CEILING + 2), max_size=2)
    return zones_of(
        {name: draw(values_near_the_ceiling(3, unique=False)) for name in names}, {n: draw(theirs) for n in names}
    )


# ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.one_of(all_ours(unique=False), with_others()))
def test_even_means_that_each_of_ours_leaves_from_a_fullest_zone_whatever_kubernetes_chooses(zones: Zones) -> None:
    assert even(zones) == leaves_from_a_fullest_zone(zones)


@given(all_ours(unique=False))
def test_where_all_values_are_ours_even_means_the_least_skew_at_every_size(zones: Zones) -> None:
    assert even(zones) == least_skew_at_every_size(zones)


@given(st.one_of(all_ours(unique=False), with_others()))
def test_after_the_rewrites_it_is_even(zones: Zones) -> None:
    moves = fewest_rewrites(zones, CEILING)
    assert even(apply(zones, moves))
    assert all(0 <= value <= CEILING for value in moves.values())


@given(st.one_of(all_ours(unique=False), with_others()))
def test_a_rewrite_changes_something_and_gives_a_zone_no_value_twice(zones: Zones) -> None:
    moves = fewest_rewrites(zones, CEILING)
    for zone in zones.values():
        assert all(moves[uid] != value for uid, value in zone.ours.items() if uid in moves)
        new = [moves[uid] for uid in zone.ours if uid in moves]
        staying = [value for uid, value in zone.ours.items() if uid not in moves]
        assert len(set(new)) == len(new)
        assert not set(new) & {*staying, *zone.fixed}


@settings(max_examples=100)
@example(zones_of({"a": [100, 99, 98, 97], "b": [100, 99, 98], "c": [99, 98]}))
@given(all_ours())
def test_no_way_of_rewriting_needs_fewer(zones: Zones) -> None:
    moves = fewest_rewrites(zones, CEILING)
    assume(1 <= len(moves) <= 3)  # none is none, and beyond three, trying everything takes minutes
    assert by_trying_everything(zones, range(CEILING - 8, CEILING + 1), len(moves)) is None


@given(all_ours(most=6), st.integers(1, 3))
def test_rewriting_in_parts_never_adds_up_to_more(zones: Zones, part: int) -> None:
    at_once = len(fewest_rewrites(zones, CEILING))
    in_parts = 0
    while moves := fewest_rewrites(zones, CEILING):
        now = dict(list(moves.items())[:part])
        in_parts += len(now)
        zones = apply(zones, now)
    assert in_parts == at_once


@given(with_others())
def test_what_is_not_ours_is_never_moved(zones: Zones) -> None:
    ours = {uid for zone in zones.values() for uid in zone.ours}
    assert set(fewest_rewrites(zones, CEILING)) <= ours


def test_those_that_would_leave_first_are_rewritten_first() -> None:
    zones = zones_of({"a": [90, 80], "b": [100, 99, 98], "c": [100, 99, 98]})
    assert list(fewest_rewrites(zones, CEILING)) == ["a1", "a0"]


def test_where_only_one_zone_is_left_order_is_nobodys_concern() -> None:
    zones = zones_of({"a": [100, 99, 95, 95, 95], "b": [98]})
    assert fewest_rewrites(zones, CEILING) == {"b0": 100}


def test_without_room_below_the_ceiling_nothing_is_rewritten() -> None:
    assert fewest_rewrites(zones_of({"a": [0, 0, 0], "b": [1, 0]}), 1) == {}


def test_impatience_costs_a_few_rewrites_but_no_evenness(monkeypatch: pytest.MonkeyPatch) -> None:
    zones = zones_of({"a": list(range(2, 40, 2)), "b": list(range(1, 41)), "c": list(range(3, 43, 3))})
    rewrites._search.cache_clear()
    least = len(fewest_rewrites(zones, CEILING))
    rewrites._search.cache_clear()
    monkeypatch.setattr(rewrites, "PATIENCE_STEPS", 3)
    hurried = fewest_rewrites(zones, CEILING)
    rewrites._search.cache_clear()
    assert even(apply(zones, hurried))
    assert least <= len(hurried) <= 2 * least


def test_a_thousand_pods_of_which_a_zone_has_lost_half() -> None:
    top = 2**31 - 1
    zones = zones_of({"a": [top - 2 * i for i in range(167)], **{z: [top - i for i in range(417)] for z in "bc"}})
    assert even(apply(zones, fewest_rewrites(zones, top)))
