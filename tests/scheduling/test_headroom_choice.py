"""Which of several ways of sizing nodes is the first to be trusted, by how many pods each leaves pending in the model."""

from __future__ import annotations

from plimsoll.scheduling.headroom import first_good


def test_a_single_pod_is_allowed_where_it_is_no_larger_share() -> None:
    assert first_good([1, 1, 0], [0, 1, 2], allowed=1.0) == 0


def test_none_left_by_luck_is_not_trusted() -> None:
    assert first_good([9, 0, 3, 1, 0, 0], [0, 1, 2, 3, 4, 5], allowed=0.5) == 4


def test_none_left_twice_in_a_row_is_trusted_however_many_the_next_cheaper_way_leaves() -> None:
    assert first_good([12, 0, 0], [0, 1, 2], allowed=1.0) == 1


def test_ways_between_the_first_good_step_and_the_one_below_are_taken_if_all_from_there_on_are_good() -> None:
    assert first_good([8, 4, 0, 2, 0, 0, 0], [0, 5, 6], allowed=0.5) == 4


def test_ways_below_the_step_that_failed_are_not_looked_at() -> None:
    assert first_good([8, 0, 5, 0, 0], [0, 2, 4], allowed=0.5) == 3


def test_there_may_be_none() -> None:
    assert first_good([8, 7, 6], [0, 1, 2], allowed=1.0) is None
