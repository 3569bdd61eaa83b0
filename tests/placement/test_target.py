"""The target split: every example and table of both documents, and what must hold for all numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.target import CapacityClass, Rounding, Share, Target, class_at, target

shares = st.builds(Share, st.integers(0, 999), st.integers(0, 100), st.sampled_from(Rounding))


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(
    ("replicas", "percentage", "minimum", "spot", "on_demand"),
    [
        (10, 60, 2, 6, 4),  # normal operation
        (3, 60, 2, 1, 2),  # small scale
        (4, 75, 3, 1, 3),  # the minimum has priority
        (10, 70, 1, 7, 3),
        (10, 90, 4, 6, 4),
        (3, 80, 2, 1, 2),
        (2, 50, 3, 0, 2),  # the minimum is above the count
        (5, 0, 1, 0, 5),
    ],
)
def test_the_documents_examples_come_out_the_same_either_way(
    replicas: int, percentage: int, minimum: int, spot: int, on_demand: int, rounding: Rounding
):
    assert target(replicas, Share(minimum, percentage, rounding)) == Target(spot, on_demand)


def test_rounding_decides_where_the_share_is_no_whole_number():
    assert target(7, Share(0, 50, Rounding.DOWN)) == Target(3, 4)
    assert target(7, Share(0, 50, Rounding.UP)) == Target(4, 3)


@given(st.integers(0, 5000), shares)
def test_the_target_is_within_its_bounds(replicas: int, share: Share):
    split = target(replicas, share)
    assert split.total == replicas
    assert split.spot >= 0
    assert split.on_demand >= min(replicas, share.min_on_demand)
    slack = 1 if share.rounding is Rounding.UP else 0
    assert split.spot * 100 < replicas * share.spot_percentage + 100 * slack + (1 - slack)


@given(st.integers(0, 300), shares)
def test_the_first_positions_hold_exactly_the_target_at_every_size(replicas: int, share: Share):
    classes = [class_at(position, share) for position in range(replicas)]
    assert classes.count(CapacityClass.SPOT) == target(replicas, share).spot


def test_the_minimum_comes_first():
    share = Share(min_on_demand=2, spot_percentage=60)
    assert [class_at(position, share).value for position in range(5)] == [
        "on-demand", "on-demand", "spot", "spot", "spot",
    ]  # fmt: skip
