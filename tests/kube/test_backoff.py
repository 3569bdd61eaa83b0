"""Delays grow, stay within their bounds, and differ."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.backoff import Backoff


@given(seed=st.integers(), base=st.floats(0.001, 10), factor=st.floats(1, 1000), failures=st.integers(1, 50))
def test_each_delay_is_between_half_and_the_whole_of_its_step(seed, base, factor, failures):
    cap = base * factor
    backoff = Backoff(base, cap, random.Random(seed))
    for failure in range(failures):
        step = min(cap, base * 2**failure)
        assert step / 2 <= backoff.next() <= step
    assert backoff.failures == failures
    backoff.reset()
    assert base / 2 <= backoff.next() <= base


def test_a_year_of_failures_does_not_overflow():
    backoff = Backoff(1.0, 30.0, random.Random(1))
    assert all(15.0 <= delay <= 30.0 for delay in [backoff.next() for _ in range(5000)][5:])


def test_two_that_failed_together_do_not_come_back_together():
    one, other = Backoff(1.0, 30.0, random.Random(1)), Backoff(1.0, 30.0, random.Random(2))
    assert [one.next() for _ in range(5)] != [other.next() for _ in range(5)]


@pytest.mark.parametrize(("base", "cap"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0)])
def test_bounds_that_make_no_sense_are_refused(base, cap):
    with pytest.raises(ValueError, match="expected 0 < base <= cap"):
        Backoff(base, cap, random.Random(1))
