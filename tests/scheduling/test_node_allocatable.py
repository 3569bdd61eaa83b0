"""What nodes have is rounded and capped alike, whether one node is read or a column of a catalogue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.types.quantity import Quantity
from plimsoll.scheduling.pod_requests import LARGEST_REQUEST, allocatable, allocatable_column

_QUANTITIES = st.integers(0, 5000) | st.integers(1000 * (LARGEST_REQUEST - 2), 1000 * (LARGEST_REQUEST + 2))


@given(st.lists(_QUANTITIES, min_size=1, max_size=5), st.sampled_from(("cpu", "memory", "example.com/gpu")))
def test_a_column_is_its_nodes_one_by_one(quantities: list[int], name: str) -> None:
    one_by_one = [allocatable({name: Quantity(quantity)})[name] for quantity in quantities]
    assert allocatable_column(name, quantities) == one_by_one
