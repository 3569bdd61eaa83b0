"""Histories of all kinds on the model of the ReplicaSet controller: a scale-down to every n stays as even as it can."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scale_down.model import World
from benchmarks.scale_down.writers import KubernetesAlone, Plimsoll
from plimsoll.controllers.deletion_cost.order import imbalance, least_skews, skew, skews

which = st.integers(0, 1000)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("lose"), which),
        st.tuples(st.just("drain"), which),
        st.tuples(st.just("outage"), which),
        st.tuples(st.just("stumble"), which),
        st.tuples(st.just("roll_out")),
        st.tuples(st.just("scale"), st.integers(1, 14)),
    ),
    max_size=8,
)
zones = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3), min_size=2, max_size=5)


def live(zones: dict[str, int], replicas: int, history: list[tuple[str, int]], seed: int) -> World:
    world = World(zones, Random(seed), Plimsoll())
    world.scale(replicas)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
    return world


@settings(max_examples=80)
@given(zones, st.integers(2, 12), happenings, st.integers(0, 2**16))
def test_after_any_history_every_size_is_as_even_as_deletion_can_make_it(
    zones: dict[str, int], replicas: int, history: list[tuple[str, int]], seed: int
) -> None:
    world = live(zones, replicas, history, seed)
    order = world.zones_in_order()
    assert skews(order) == least_skews(Counter(order))
    # The promise as users read it: at most one apart wherever deletion alone can have it so.
    assert all(real <= 1 for real, least in zip(skews(order), least_skews(Counter(order)), strict=True) if least <= 1)


@settings(max_examples=30)
@given(zones, st.integers(2, 12), happenings, st.integers(0, 2**16))
def test_one_at_a_time_is_as_even_as_all_at_once(
    zones: dict[str, int], replicas: int, history: list[tuple[str, int]], seed: int
) -> None:
    """Each deletion changes the company on nodes and the ages, by which Kubernetes decides between equals."""
    world = live(zones, replicas, history, seed)
    order = world.zones_in_order()
    least = least_skews(Counter(order))
    everywhere = dict.fromkeys(order, 0)
    for deleted in range(1, len(order)):
        world.scale(len(order) - deleted)
        now = Counter(everywhere)
        now.update(world.zones_in_order())
        assert skew(now) == least[deleted]


@settings(max_examples=30)
@given(zones, st.integers(2, 12), happenings, st.integers(0, 2**16))
def test_when_nothing_happens_nothing_is_written(
    zones: dict[str, int], replicas: int, history: list[tuple[str, int]], seed: int
) -> None:
    world = live(zones, replicas, history, seed)
    before = world.writer.writes
    for _ in range(3):
        assert world.writer.look(world) is None
    assert world.writer.writes == before


def test_the_model_can_tell_good_from_bad() -> None:
    """Without values, some of these histories end unevenly: a model in which nothing can go wrong would prove nothing."""
    uneven = 0
    for seed in range(20):
        world = World({"a": 2, "b": 2, "c": 2}, Random(seed), KubernetesAlone())
        world.scale(9)
        world.drain(seed)
        uneven += imbalance(world.zones_in_order()) > 0
    assert uneven > 5


def test_skews_along_a_scale_down() -> None:
    assert skews(["a", "a", "b", "b"]) == [0, 1, 2, 1]
    assert least_skews({"a": 2, "b": 2}) == [0, 1, 0, 1]
    assert least_skews({"a": 4, "b": 1}) == [3, 2, 1, 0, 1]
    assert imbalance(["a", "a", "b", "b"]) == 2
    assert imbalance(["a", "b", "a", "b"]) == 0
    assert imbalance([]) == 0
