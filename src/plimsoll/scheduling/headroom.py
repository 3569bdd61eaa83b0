"""Chooses how much larger than necessary new nodes are, so that kube-scheduler can bind all pods. Called by `plan`.

A plan that fits exactly does not bind: kube-scheduler takes pods in order of arrival and spreads them, so large pods
that come late find only small gaps and stay pending. How much room prevents that depends on the pods and on the
available sizes. Several ways of rounding sizes up are tried; a model of kube-scheduler places the pods of the plan for
each, and the cheapest way that leaves (almost) none pending is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.scheduler_model import Arrivals, KubeSchedulerModel, dealt

# The share of pods that may stay pending in the model. The model agrees with the real scheduler within a third; the
# limit there is 0.5 %.
_PENDING = 0.003
_ONE_POD = 0.005  # a single pod may stay pending if it is no larger share than this
_WORTH_IT = 0.5  # a way that does not bind must at least halve what the exact fit leaves pending
# No way is tried that costs more than this multiple of the exact fit. Karpenter, which fills nodes evenly, pays 1.44 to
# 1.53 times for the nodes it plans for the pods of its own benchmark.
_DEAREST = 1.45
_PARTS = 32
_STRIDE = 5  # neighbours were opened for the same pods in the same zone and are not raised together
_STEP = 1.03  # each way costs at least this multiple of the previous one
_CLOSER_STEP = 1.005  # the step where all nodes are simulated because they are few
_SAME_PRICE = 1e-9  # sums of the same prices in another order differ by less

Offerings = NDArray[np.int64]  # by new node: the offering it would become


class Headroom:
    def __init__(self, state: PlanState, rows: list[int], at_most: float | None = None) -> None:
        self.state = state
        self.rows = np.array(rows)
        self.prices = np.array(state.offerings.prices)
        self.exact: Offerings = np.array(state.cheapest_offerings(rows))
        self.most_price = _DEAREST * self._price(self.exact) if at_most is None else at_most
        self._samples = dealt(rows)
        position = {row: index for index, row in enumerate(rows)}
        self.sampled_rows = [row for sample in self._samples for row in sample]
        self._sampled = [position[row] for row in self.sampled_rows]
        self._steps: list[int] = []  # the ways that are one step apart
        # Empty where only one size exists. A plan that uses only the largest size is still evaluated, because it may be
        # compared with another plan.
        self.ways = self._ways() if any(len(lane.members) > 1 for lane in state.offerings.lanes) else []
        self.binds = True  # whether the chosen way leaves few enough pods pending

    def choose(self, arrivals: Arrivals) -> dict[int, int]:
        """By row of a new node: the offering to use. `arrivals` are the pods planned for the sampled rows."""
        chosen = self._cheapest_that_binds(arrivals)
        return dict(zip(self.rows.tolist(), chosen.tolist(), strict=True))

    def _price(self, way: Offerings) -> float:
        return float(self.prices[way].sum())

    def _cheapest_that_binds(self, arrivals: Arrivals) -> Offerings:
        """Return the cheapest way that binds, else the one that leaves the fewest pending if that is worth its price,
        else the exact fit.
        """
        model = KubeSchedulerModel(self.state, self._samples, arrivals)
        pending = model.pending(np.array([way[self._sampled] for way in self.ways]))
        allowed = max(_PENDING * model.pods, min(_ONE_POD * model.pods, 1.0))
        chosen = first_good(pending, self._steps, allowed)
        if chosen is None:
            least = pending.index(min(pending))
            chosen = least if pending[least] <= _WORTH_IT * pending[0] else 0
            self.binds = pending[chosen] <= allowed
        return self.ways[chosen]

    def _ways(self) -> list[Offerings]:
        """Return ways from the exact fit to each even size, and between two even sizes with some of the nodes raised.

        No two ways cost nearly the same, except even sizes: where sizes are few, raising all nodes may bind where
        raising most does not.
        """
        ways, self._steps = [self.exact], [0]
        dearest = at_step = self._price(self.exact)
        closer = _CLOSER_STEP if len(self._samples) == 1 else _STEP
        part = np.arange(len(self.rows)) * _STRIDE % _PARTS
        for price, parts, below, above in self._raised(part):
            step = price >= _STEP * at_step or (parts == _PARTS and price > at_step + _SAME_PRICE)
            if price >= closer * dearest or (step and price > dearest + _SAME_PRICE):
                ways.append(np.where(part < parts, above, below))
                dearest = price
            if step:
                self._steps.append(len(ways) - 1)
                at_step = price
        if self._steps[-1] < len(ways) - 1:
            self._steps.append(len(ways) - 1)
        return ways

    def _raised(self, part: NDArray[np.int64]) -> Iterator[tuple[float, int, Offerings, Offerings]]:
        """Yield the cost of raising one part of the nodes, two parts and so on from one even size to the next, within
        the price limit.
        """
        below = self.exact
        for above in self._even_sizes():
            dearer = np.bincount(part, self.prices[above] - self.prices[below], minlength=_PARTS)
            for parts, price in enumerate((self._price(below) + dearer.cumsum()).tolist(), start=1):
                if price > self.most_price + _SAME_PRICE:
                    return
                yield price, parts, below, above
            below = above

    def _even_sizes(self) -> Iterator[Offerings]:
        """Yield every node at the largest size available below a price, or at its necessary size, for rising prices.

        A node is never made smaller in one resource to be larger in another.
        """
        offerings, sets = self.state.offerings, self.state.sets
        # Nodes with the same options and the same minimum are treated alike.
        sizes = self.state.set_of[self.rows] * len(self.prices) + self.exact
        ladders = []
        for size in np.unique(sizes).tolist():
            index, offering = divmod(size, len(self.prices))
            lane = offerings.lanes[sets[index][0]]
            rungs = lane.members[self.state.ladder(*sets[index]).rungs_from(lane.member(offering))]
            ladders.append((np.flatnonzero(sizes == size), rungs, self.prices[rungs]))
        every_price: list[float] = np.unique(np.concatenate([prices for _, _, prices in ladders])).tolist()
        for price in every_price[1:]:
            way = self.exact.copy()
            for nodes, rungs, prices in ladders:
                way[nodes] = rungs[max(int(prices.searchsorted(price + _SAME_PRICE)) - 1, 0)]
            yield way


def first_good(pending: list[int], steps: list[int], allowed: float) -> int | None:
    """Return the first step that leaves few enough pods pending, or a cheaper way between it and the step below that
    also does.
    """
    left = [pending[step] for step in steps]
    for number, step in enumerate(steps):
        below, above = left[max(number - 1, 0)], left[min(number + 1, len(left) - 1)]
        if _few_enough(below, left[number], above, allowed):
            found = step
            cheapest = steps[number - 1] if number else step
            while found - 1 > cheapest and _few_enough(below, pending[found - 1], left[number], allowed):
                found -= 1
            return found
    return None


def _few_enough(below: int, pending: int, above: int, allowed: float) -> bool:
    """Smooth over neighbouring steps, because a single pod more or less is chance. Zero pending twice in a row is not."""
    return pending + above == 0 or below + 2 * pending + above <= 4 * allowed
