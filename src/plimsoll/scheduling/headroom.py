"""How much larger than needed new nodes should be, so that kube-scheduler gets all pods onto them.

A plan that fits exactly does not bind: kube-scheduler takes pods in order of arrival and spreads them, large ones that come late
find only small gaps, and some stay pending. How much room prevents that depends on the pods and on the sizes that can be
bought. So it is found out: several ways of rounding sizes up are tried, each by letting a model of kube-scheduler place the very
pods of the plan, and the cheapest way that leaves (almost) none is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.binding import Arrival, BindingModel, Indexes, dealt
from plimsoll.scheduling.board import Board
from plimsoll.scheduling.offerings import Ladder

# The share of pods that may stay pending in the model. It agrees with the real one within a third; the bar for that is 0.5 %.
_PENDING = 0.003
_ONE_POD = 0.005  # a single pod is always allowed to, where it is no larger share
_WORTH_IT = 0.5  # of what the exact fit leaves pending: what a way that does not bind must come to
# No way is tried that costs more than so many times the exact fit. Karpenter, which fills nodes evenly, pays 1.44 to 1.53 times for
# the nodes that it plans for the pods of its own benchmark.
_DEAREST = 1.45
_PARTS = 32
_STRIDE = 5  # neighbours, which were opened for the same pods in the same zone, are not raised together
_STEP = 1.02  # each way costs at least so many times the one before

Offerings = NDArray[np.int64]  # by new node: the offering it would be


class Headroom:
    def __init__(self, board: Board, rows: list[int], at_most: float | None = None) -> None:
        self.board = board
        self.rows = np.array(rows)
        self.prices = np.array(board.offerings.prices)
        self.exact: Offerings = np.array(board.cheapest_offerings(rows))
        self.most_price = _DEAREST * self._price(self.exact) if at_most is None else at_most
        # None where there is but one size. A plan that is made of the largest is still judged: it may be compared with another one.
        choice = any(len(lane.members) > 1 for lane in board.offerings.lanes)
        self.series = [ways for ways in self._series() if len(ways) > 1] or [[self.exact]] if choice else []
        self._samples = dealt(rows)
        position = {row: index for index, row in enumerate(rows)}
        self._sampled = [position[row] for sample in self._samples for row in sample]
        self.sampled_rows = {row for sample in self._samples for row in sample}
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
        pending = model.pending(np.array([way[self._sampled] for ways in self.series for way in ways]))
        allowed = max(_PENDING, min(_ONE_POD, 1 / model.pods))
        good: list[Offerings] = []
        start = 0
        for ways in self.series:
            shares = smoothed(pending[start : start + len(ways)])
            good += [way for way, share in zip(ways, shares, strict=True) if share <= allowed][:1]
            start += len(ways)
        self.binds = bool(good)
        if good:
            return min(good, key=self._price)
        least = pending.index(min(pending))
        return list(chain(*self.series))[least] if pending[least] <= _WORTH_IT * pending[0] else self.exact

    def _series(self) -> list[list[Offerings]]:
        """Ways of sizing the nodes, in series that begin with the exact fit and get dearer: in one, no node costs less than a certain
        price; in the other, each is so many sizes larger than it need be.
        """
        board = self.board
        sets = board.set_of[self.rows]
        ladders = [(board.offerings.lanes[lane], board.ladder(lane, members)) for lane, members in board.sets]
        there = [(ladders[index], np.flatnonzero(sets == index)) for index in sorted(set(sets.tolist()))]
        prices = sorted({price for (_, ladder), _ in there for price in ladder.prices.tolist()})
        needed = np.zeros(len(self.rows), np.intp)
        for (_, ladder), nodes in there:
            needed[nodes] = ladder.rung_for(board.held[:, self.rows[nodes]])

        def at_rungs(rung_of: Callable[[Ladder, Indexes], Indexes]) -> Offerings:
            """Each node on a rung of its ladder that is as high as said and as needed; one that stands beside it stays as it is."""
            way = self.exact.copy()
            for (lane, ladder), nodes in there:
                highest = len(ladder.members) - 1
                rung = np.maximum(needed[nodes], np.minimum(rung_of(ladder, needed[nodes]), highest))
                on_ladder = rung <= highest
                way[nodes[on_ladder]] = lane.members[ladder.members[rung[on_ladder]]]
            return np.where(self.prices[way] > self.prices[self.exact], way, self.exact)

        lowest = float(self.prices[self.exact].min())
        floors = (price for price in prices if price > lowest)
        at_least = (at_rungs(partial(_rungs_that_cost, floor)) for floor in floors)
        larger = (at_rungs(partial(_rungs_higher, sizes)) for sizes in range(1, len(prices)))
        return [self._dearer_and_dearer(at_least), self._dearer_and_dearer(larger)]

    def _dearer_and_dearer(self, marks: Iterable[Offerings]) -> list[Offerings]:
        """From the exact fit to one mark after the other; between two of them with a few, half and so on of the nodes raised. No two
        cost nearly the same, but for the marks: where sizes are few, all nodes alike may bind where most of them do not.
        """
        ways, below, least = [self.exact], self.exact, _STEP * self._price(self.exact)
        part = np.arange(len(self.rows)) * _STRIDE % _PARTS
        for above in marks:
            for parts in range(1, 1 + _PARTS):
                way = np.where(part < parts, above, below)
                price = self._price(way)
                if price > self.most_price:
                    return ways
                if price >= least or (parts == _PARTS and price * _STEP > least):
                    ways.append(way)
                    least = _STEP * price
            below = above
        return ways


def _rungs_that_cost(floor: float, ladder: Ladder, needed: Indexes) -> Indexes:
    return np.full(len(needed), np.searchsorted(ladder.prices, floor - 1e-9))


def _rungs_higher(sizes: int, _: Ladder, needed: Indexes) -> Indexes:
    return needed + sizes


def smoothed(shares: list[float]) -> list[float]:
    """A single pod more or less is chance; what the next cheaper and the next dearer way leave tells of this one, too."""
    padded = [shares[0], *shares, shares[-1]]
    return [(below + 2 * share + above) / 4 for below, share, above in zip(padded, shares, padded[2:], strict=False)]
