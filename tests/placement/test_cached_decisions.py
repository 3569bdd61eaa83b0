"""What is kept from one decision to the next saves work and changes no decision."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.fleet import Fleet

STEPS = (
    "decide", "decide", "decide", "decide", "evict", "let_go", "replace", "bind", "wait", "lose_pod", "scale", "delete",
    "roll_out", "cover", "add_node", "remove_node", "taint", "heartbeat", "copy",
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60)), min_size=10, max_size=40),
    moving_percentage=st.sampled_from([0, 50]),
    more_nodes=st.integers(0, 1),
)
def test_a_decision_is_the_same_as_one_from_nothing(
    steps: list[tuple[str, int]], moving_percentage: int, more_nodes: int
):
    fleet = Fleet(5, moving_percentage=moving_percentage, more_nodes=more_nodes)
    for step, number in steps:
        getattr(fleet, step)(number)
    for number in range(5):
        fleet.decide(number)


@pytest.mark.parametrize("seed", range(4))
def test_many_workloads_that_are_moved_one_after_the_other(seed: int):
    """As after a restart with everything on the wrong class: all are decided about, some are carried out, and so on."""
    chance = Random(seed)
    fleet = Fleet(30, moving_percentage=50 * (seed % 2), more_nodes=seed // 2)
    for _ in range(12):
        fleet.add_node(chance.randrange(60))
    for _ in range(6):
        for number in range(30):
            fleet.decide(number)
        for number in range(30):
            step = chance.choice(("evict", "evict", "wait", "taint", "add_node", "remove_node", "cover"))
            getattr(fleet, step)(number if step == "evict" else chance.randrange(60))
        for number in range(30):
            for step in ("let_go", "replace", "bind"):
                if chance.random() < 0.7:
                    getattr(fleet, step)(number)
    assert fleet.moved, "nobody was moved, so nothing was promised"
    assert "NoPlaceToMovePods" in fleet.blocked, "there was room for everybody, so promises made no difference"
