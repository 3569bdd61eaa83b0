"""Converts rows of a finished plan to `NewNode` results. Called by `plan`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from plimsoll.kube.types.meta import Resources
from plimsoll.kube.types.quantity import Quantity
from plimsoll.scheduling.model import NewNode
from plimsoll.scheduling.offerings import cheapest, listed
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_groups import Numbers
from plimsoll.scheduling.pod_requests import CPU, PODS, allocatable
from plimsoll.scheduling.volume_limits import driver_of


class NewNodes:
    """Builds results; values that many nodes share are computed once."""

    def __init__(self, state: PlanState, sizes: dict[int, int]) -> None:
        self._state = state
        self._sizes = sizes
        self._all_names: dict[int, tuple[str, ...]] = {}  # by lane
        self._daemons: dict[int, list[int]] = {}

    def make(self, rows: list[int], pods: list[tuple[str, ...]]) -> tuple[NewNode, ...]:
        """By row and the UIDs of its pods: the node to add."""
        if not rows:
            return ()
        state, offerings = self._state, self._state.offerings
        lanes, sold = offerings.lanes, offerings.sold
        templates = [offerings.templates[lane.template].name for lane in lanes]  # by lane
        sizes = state.sizes_of(rows)
        candidates = {size: self._candidates(*size) for size in dict.fromkeys(sizes)}
        if self._sizes:
            chosen = [self._sizes[row] for row in rows]
        else:
            chosen = [int(lanes[lane].members[cheapest(members)]) for lane, members in sizes]
        requested = self._requested(rows, chosen)
        return tuple(
            [
                NewNode(
                    state.names[row],
                    templates[size[0]],
                    sold[index].name,
                    candidates[size],
                    uids,
                    requests,
                    sold[index].price,
                )
                for row, uids, size, index, requests in zip(rows, pods, sizes, chosen, requested, strict=True)
            ]
        )

    def _candidates(self, number: int, members: int) -> tuple[str, ...]:
        offerings = self._state.offerings
        lane = offerings.lanes[number]
        everything = self._all_names.get(number)
        if everything is None:
            everything = tuple([offerings.sold[index].name for index in lane.members.tolist()])
            self._all_names[number] = everything
        lowest = members & -members
        if members + lowest == lane.everything + 1:  # the common case: all members from the lowest on
            return everything[lowest.bit_length() - 1 :]
        return tuple([everything[member] for member in listed(members)])

    def _requested(self, rows: list[int], chosen: list[int]) -> list[Resources]:
        """By row: the total requests of its pods and of the DaemonSet pods of its offering."""
        state = self._state
        amounts = state.held(np.array(rows, np.intp))
        if state.daemons:
            amounts = amounts + np.array([self._by_daemons(offering) for offering in chosen]).T
        names, columns = [], []
        for name, amount in zip(state.classes.resources, amounts, strict=True):
            if name != PODS and not driver_of(name) and amount.any():
                quantities = (amount if name == CPU else amount * 1000).tolist()
                made = {quantity: Quantity(quantity) for quantity in set(quantities)}
                names.append(name)
                columns.append([made[quantity] for quantity in quantities])
        if not columns:  # pods without requests
            return [{} for _ in rows]
        requested: list[Resources] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if all(map(all, columns)):
            return requested
        return [{name: quantity for name, quantity in row.items() if quantity} for row in requested]

    def _by_daemons(self, offering: int) -> list[int]:
        """Return what DaemonSet pods request, which was subtracted from the offering's capacity."""
        found = self._daemons.get(offering)
        if found is None:
            state = self._state
            given = allocatable(state.offerings.sold[offering].allocatable)
            names = state.classes.resources
            left = state.offerings.caps[:, offering].tolist()
            found = self._daemons[offering] = [
                0 if driver_of(name) else given.get(name, 0) - rest for name, rest in zip(names, left, strict=True)
            ]
        return found


def by_row(uids: list[str], rows: Numbers, first: int) -> tuple[list[int], list[tuple[str, ...]]]:
    """Return the rows from `first` on that have pods, and the UIDs on each, in the given order."""
    order = rows.argsort(kind="stable")
    order = order[rows[order].searchsorted(first) :]
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    sorted_uids = tuple(map(uids.__getitem__, order.tolist()))
    bounds = pairwise((*starts.tolist(), len(sorted_uids)))
    return rows[order[starts]].tolist(), [sorted_uids[start:stop] for start, stop in bounds]
