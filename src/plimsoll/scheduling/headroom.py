"""How much larger than needed new nodes should be, so that kube-scheduler gets all pods onto them.

A plan that fits exactly does not bind: kube-scheduler takes pods in order of arrival and spreads them, large ones that come late
find only small gaps, and some stay pending. How much room prevents that depends on the pods and on the sizes that can be
bought. So it is found out: several ways of rounding sizes up are tried, each by letting a model of kube-scheduler place the very
pods of the plan, and the cheapest way that leaves (almost) none is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.binding import Arrival, BindingModel, dealt
from plimsoll.scheduling.board import Board

# The share of pods that may stay pending in the model. It agrees with the real one within a third; the bar for that is 0.5 %.
_PENDING = 0.003
_ONE_POD = 0.005  # a single pod is always allowed to, where it is no larger share
_WORTH_IT = 0.5  # of what the exact fit leaves pending: what a way that does not bind must come to
# No way is tried that costs more than so many times the exact fit. Karpenter, which fills nodes evenly, pays 1.44 to 1.53 times for
# the nodes that it plans for the pods of its own benchmark.
_DEAREST = 1.45
_PARTS = 32
_STRIDE = 5  # neighbours, which were opened for the same pods in the same zone, are not raised together
_STEP = 1.03  # each way costs at least so many times the one before

Offerings = NDArray[np.int64]  # by new node: the offering it would be


class Headroom:
    def __init__(self, board: Board, rows: list[int]) -> None:
        self.board = board
        self.rows = np.array(rows)
        self.prices = np.array(board.offerings.prices)
        self.exact: Offerings = np.array(board.cheapest_offerings(rows))
        self.most_price = _DEAREST * self._price(self.exact)
        self._samples = dealt(rows)
        position = {row: index for index, row in enumerate(rows)}
        self._sampled = [position[row] for sample in self._samples for row in sample]
        self.sampled_rows = {row for sample in self._samples for row in sample}
        self.binds = True  # whether the way that was chosen leaves few enough pending, as far as there was a choice

    def choose(self, arrivals: list[Arrival]) -> dict[int, int]:
        """By row of a new node: the offering to make it. `arrivals` are the pods planned for the sampled rows."""
        ways = self._ways()
        chosen = self._cheapest_that_binds(ways, arrivals) if len(ways) > 1 else self.exact
        return dict(zip(self.rows.tolist(), chosen.tolist(), strict=True))

    def _price(self, way: Offerings) -> float:
        return float(self.prices[way].sum())

    def _cheapest_that_binds(self, ways: list[Offerings], arrivals: list[Arrival]) -> Offerings:
        """Where no way is good enough, the one that leaves the fewest pending, if that is worth it; else the exact fit."""
        model = BindingModel(self.board, self._samples, arrivals)
        pending = model.pending(np.array([way[self._sampled] for way in ways]))
        allowed = max(_PENDING, min(_ONE_POD, 1 / model.pods))
        good = [number for number, share in enumerate(smoothed(pending)) if share <= allowed]
        self.binds = bool(good)
        if good:
            return ways[good[0]]
        least = pending.index(min(pending))
        return ways[least] if pending[least] <= _WORTH_IT * pending[0] else self.exact

    def _ways(self) -> list[Offerings]:
        """The exact fit, then sizes rounded up so that no node costs less than a certain price, from the cheapest to the dearest;
        between two such prices, with a few, half and so on of the nodes at the higher one.
        """
        board = self.board
        sets = board.set_of[self.rows]
        ladders = {index: board.ladder(*board.sets[index]) for index in sorted(set(sets.tolist()))}
        prices = sorted({price for ladder in ladders.values() for price in ladder.prices.tolist()})
        lowest = float(self.prices[self.exact].min())
        floors = [lowest, *(price for price in prices if price > lowest)]
        needed = np.zeros(len(self.rows), np.intp)
        for index, ladder in ladders.items():
            here = sets == index
            needed[here] = ladder.rung_for(board.held[:, self.rows[here]])

        def raised(floor: float) -> Offerings:
            """The smallest offering of each node's ladder that holds its pods and costs at least so much, or else its largest."""
            way = self.exact.copy()
            for index, ladder in ladders.items():
                here = (sets == index) & (self.prices[self.exact] < floor - 1e-9)
                rung = np.minimum(np.searchsorted(ladder.prices, floor - 1e-9), len(ladder.members) - 1)
                rung = np.maximum(needed[here], rung)
                lane = board.offerings.lanes[board.sets[index][0]]
                at = np.flatnonzero(here)[rung < len(ladder.members)]
                way[at] = lane.members[ladder.members[rung[rung < len(ladder.members)]]]
            return way

        ways, below, least = [self.exact], self.exact, _STEP * self._price(self.exact)
        part = np.arange(len(self.rows)) * _STRIDE % _PARTS
        for floor in floors[1:]:
            above = raised(floor)
            for parts in range(1, 1 + _PARTS):
                way = np.where(part < parts, above, below)
                price = self._price(way)
                if price > self.most_price:
                    return ways
                if price >= least:
                    ways.append(way)
                    least = _STEP * price
            below = above
        return ways


def smoothed(shares: list[float]) -> list[float]:
    """A single pod more or less is chance; what the next cheaper and the next dearer way leave tells of this one, too."""
    padded = [shares[0], *shares, shares[-1]]
    return [(below + 2 * share + above) / 4 for below, share, above in zip(padded, shares, padded[2:], strict=False)]
