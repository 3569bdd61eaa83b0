"""How much larger than needed new nodes should be, so that kube-scheduler gets all pods onto them.

A plan that fits exactly does not bind: kube-scheduler takes pods in order of arrival and spreads them, large ones that come late
find only small gaps, and some stay pending. How much room prevents that depends on the pods and on the sizes that can be
bought. So it is found out: several ways of rounding sizes up are tried, each by letting a model of kube-scheduler place the very
pods of the plan, and the cheapest way that leaves (almost) none is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

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
_SAME_PRICE = 1e-9  # sums of the same prices in another order differ by less

Offerings = NDArray[np.int64]  # by new node: the offering it would be


class Headroom:
    def __init__(self, board: Board, rows: list[int], at_most: float | None = None) -> None:
        self.board = board
        self.rows = np.array(rows)
        self.prices = np.array(board.offerings.prices)
        self.exact: Offerings = np.array(board.cheapest_offerings(rows))
        self.most_price = _DEAREST * self._price(self.exact) if at_most is None else at_most
        # None where there is but one size. A plan that is made of the largest is still judged: it may be compared with another one.
        self.ways = self._ways() if any(len(lane.members) > 1 for lane in board.offerings.lanes) else []
        self._samples = dealt(rows)
        position = {row: index for index, row in enumerate(rows)}
        self.sampled_rows = [row for sample in self._samples for row in sample]
        self._sampled = [position[row] for row in self.sampled_rows]
        self.binds = True  # whether the way that was chosen leaves few enough pending, as far as there was a choice

    def choose(self, arrivals: list[Arrival]) -> dict[int, int]:
        """By row of a new node: the offering to make it. `arrivals` are the pods planned for the sampled rows."""
        chosen = self._cheapest_that_binds(arrivals)
        return dict(zip(self.rows.tolist(), chosen.tolist(), strict=True))

    def _price(self, way: Offerings) -> float:
        return float(self.prices[way].sum())

    def _cheapest_that_binds(self, arrivals: list[Arrival]) -> Offerings:
        """Where no way is good enough, the one that leaves the fewest pending, if that is worth it; else the exact fit."""
        model = BindingModel(self.board, self._samples, arrivals)
        pending = model.pending(np.array([way[self._sampled] for way in self.ways]))
        allowed = max(_PENDING, min(_ONE_POD, 1 / model.pods))
        good = [number for number, share in enumerate(smoothed(pending)) if share <= allowed]
        self.binds = bool(good)
        if good:
            return self.ways[good[0]]
        least = pending.index(min(pending))
        return self.ways[least] if pending[least] <= _WORTH_IT * pending[0] else self.exact

    def _ways(self) -> list[Offerings]:
        """From the exact fit to one even size after the other; between two of them with a few, half and so on of the nodes raised.

        No two cost nearly the same, but for the even sizes: where sizes are few, all nodes alike may bind where most of them do not.
        """
        ways, below, least = [self.exact], self.exact, _STEP * self._price(self.exact)
        part = np.arange(len(self.rows)) * _STRIDE % _PARTS
        for above in self._even_sizes():
            dearer = np.bincount(part, self.prices[above] - self.prices[below], minlength=_PARTS)
            prices = (self._price(below) + dearer.cumsum()).tolist()  # with one part raised, with two and so on
            for parts, price in enumerate(prices, start=1):
                if price > self.most_price + _SAME_PRICE:
                    return ways
                if price >= least or (parts == _PARTS and price * _STEP > least):
                    ways.append(np.where(part < parts, above, below))
                    least = _STEP * price
            below = above
        return ways

    def _even_sizes(self) -> Iterator[Offerings]:
        """Sizes rounded up so that no node costs less than a certain price, from the lowest such price to the highest."""
        board = self.board
        sets = board.set_of[self.rows]
        ladders = [
            (
                board.offerings.lanes[board.sets[index][0]],
                board.ladder(*board.sets[index]),
                np.flatnonzero(sets == index),
            )
            for index in sorted(set(sets.tolist()))
        ]
        needed = np.zeros(len(self.rows), np.intp)
        for _, ladder, nodes in ladders:
            needed[nodes] = ladder.rung_for(board.held[:, self.rows[nodes]])
        paid = self.prices[self.exact]
        for floor in sorted({price for _, ladder, _ in ladders for price in ladder.prices.tolist()}):
            if floor <= paid.min():
                continue
            way = self.exact.copy()
            for lane, ladder, nodes in ladders:
                cheaper = nodes[paid[nodes] < floor - 1e-9]
                highest = len(ladder.members) - 1
                rung = np.maximum(needed[cheaper], min(int(np.searchsorted(ladder.prices, floor - 1e-9)), highest))
                on_ladder = rung <= highest  # what no rung holds stays as it is
                way[cheaper[on_ladder]] = lane.members[ladder.members[rung[on_ladder]]]
            yield way


def smoothed(shares: list[float]) -> list[float]:
    """A single pod more or less is chance; what the next cheaper and the next dearer way leave tells of this one, too."""
    padded = [shares[0], *shares, shares[-1]]
    return [(below + 2 * share + above) / 4 for below, share, above in zip(padded, shares, padded[2:], strict=False)]
