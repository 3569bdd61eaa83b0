"""Finding places for pods that have no rule about other pods, many times over, on nodes that are filled one after the other.

When nodes are emptied, almost every pod goes to one of the few nodes that are being filled at the time. So those are tried first,
with plain integers: for a dozen nodes that is several times faster than arrays. Only when none of them has room, all are searched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.topology import Mask

_AT_A_TIME = 12


class BestFit:
    """The nodes that may take pods of classes with one and the same static mask."""

    def __init__(self, state: PlanState, mask: Mask, free: dict[int, list[int]], order: NDArray[np.float64]) -> None:
        self._state = state
        self._mask = mask  # by row
        self._free = free  # row → amounts, shared by all receivers; holds rows in use only
        self._order = order  # by row: which to fill first
        self._filling: list[int] = []

    def take(self, shape: Shape, count: int, saved: dict[int, list[int]]) -> list[tuple[int, int]] | None:
        """Rows and how many pods each takes; None if not all find a place. `saved` keeps what rows had before."""
        taken: list[tuple[int, int]] = []
        alive = self._state.alive
        for row in self._filling:
            if alive[row]:
                count -= self._give(row, shape, count, taken, saved)
                if not count:
                    return taken
        # The arrays do not know yet what the pods of the node at hand have taken: rows in `saved` have been tried above or are
        # tried here with what they really have.
        for row in self._search(shape):
            if row in self._filling:
                continue
            given = self._give(row, shape, count, taken, saved)
            if given:
                self._filling.insert(0, row)
                del self._filling[_AT_A_TIME:]
                count -= given
                if not count:
                    return taken
        return None

    def _search(self, shape: Shape) -> list[int]:
        """Rows where the arrays say that one fits, in the order in which to fill them."""
        state = self._state
        fits = self._mask & state.alive[: state.size]
        for resource, amount in shape:
            fits = fits & (state.free[resource, : state.size] >= amount)
        rows = fits.nonzero()[0]
        return rows[np.argsort(self._order[rows], kind="stable")].tolist() if len(rows) > 1 else rows.tolist()

    def _give(
        self, row: int, shape: Shape, count: int, taken: list[tuple[int, int]], saved: dict[int, list[int]]
    ) -> int:
        free = self._free.get(row)
        if free is None:
            free = self._free[row] = self._state.free[:, row].tolist()
        for resource, amount in shape:
            fits = free[resource] // amount
            if fits < count:
                if fits <= 0:
                    return 0
                count = fits
        if row not in saved:
            saved[row] = free.copy()
        for resource, amount in shape:
            free[resource] -= amount * count
        taken.append((row, count))
        return count
