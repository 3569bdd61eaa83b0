"""The specification's own code, written out, against ours."""
# ruff: noqa: PLR1730 - written as the specification writes it

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.nodegroups.scale_up.scale_up import calculate_desired_nodes, calculate_nodes_to_add

count = st.integers(0, 60)


@given(current=count, pending=count, low=count, more=count)
def test_desired_as_specified(current: int, pending: int, low: int, more: int) -> None:
    high = low + more
    desired = current + pending
    if desired < low:
        desired = low
    if desired > high:
        desired = high
    found = calculate_desired_nodes(current=current, required_for_pending=pending, min_nodes=low, max_nodes=high)
    assert found == desired


@given(current=count, pending=count, low=count, more=count, floor=count)
def test_a_floor_never_lowers_and_never_leaves_the_bounds(
    current: int, pending: int, low: int, more: int, floor: int
) -> None:
    bounds = {"current": current, "required_for_pending": pending, "min_nodes": low, "max_nodes": low + more}
    without, with_floor = calculate_desired_nodes(**bounds), calculate_desired_nodes(**bounds, floor=floor)
    assert with_floor == max(without, min(floor, low + more))


@given(desired=count, current=count, high=count, batch=count)
def test_nodes_to_add_as_specified(desired: int, current: int, high: int, batch: int) -> None:
    to_add = desired - current
    addable = high - current
    if to_add > addable:
        to_add = addable
    if batch > 0 and to_add > batch:
        to_add = batch
    found = calculate_nodes_to_add(desired=desired, current=current, max_nodes=high, batch_size=batch)
    assert found == max(to_add, 0)
