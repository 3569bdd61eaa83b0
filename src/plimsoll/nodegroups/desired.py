"""How many nodes a group should have, and how many of the missing ones are added now."""

from __future__ import annotations


def calculate_desired_nodes(
    *, current: int, required_for_pending: int, min_nodes: int, max_nodes: int, floor: int | None = None
) -> int:
    """What is there and what waiting pods need, at least `floor`, within the group's bounds."""
    wanted = current + required_for_pending
    if floor is not None:
        wanted = max(wanted, floor)
    return min(max(wanted, min_nodes), max_nodes)


def calculate_nodes_to_add(*, desired: int, current: int, max_nodes: int, batch_size: int = 0) -> int:
    """What is missing, no more than the maximum leaves room for and, unless it is 0, than the batch size; never negative."""
    missing = min(desired - current, max_nodes - current)
    if batch_size > 0:
        missing = min(missing, batch_size)
    return max(missing, 0)
