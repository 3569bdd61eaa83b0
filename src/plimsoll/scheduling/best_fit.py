"""Places pods without inter-pod rules while nodes are emptied. Called by `removal`.

When many nodes are emptied, almost every pod goes to one of the few nodes that are being filled at the moment. Those
nodes are tried first, with plain integers, which is several times faster than arrays for a dozen nodes. All other nodes
are searched only if none of them has room.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.topology import Mask

_AT_A_TIME = 12


class BestFit:
    """Best-fit placement for all pod classes that share one static mask."""

    def __init__(self, state: PlanState, mask: Mask, free: dict[int, list[int]], order: NDArray[np.float64]) -> None:
        self._state = state
        self._mask = mask  # by row
        self._free = free  # row → free amounts, shared by all instances; holds only rows in use
        self._order = order  # by row: rows with a lower value are filled first
        self._filling: list[int] = []

    def take(self, shape: Shape, count: int, saved: dict[int, list[int]]) -> list[tuple[int, int]] | None:
        """Return rows with the number of pods each takes, or None if not all pods find a place.

        `saved` receives the amounts that each changed row had before.
        """
        taken: list[tuple[int, int]] = []
        alive = self._state.alive
        for row in self._filling:
            if alive[row]:
                count -= self._give(row, shape, count, taken, saved)
                if not count:
                    return taken
        # The arrays do not include what pods of the current node have taken. Rows in `saved` were tried above, or are
        # tried here with their real free amounts.
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
        """Return the rows on which one pod fits according to the arrays, in filling order."""
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
