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

from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.scheduler_model import Arrivals, KubeSchedulerModel, dealt

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
_CLOSER_STEP = 1.005  # where the nodes are so few that they are all played, and quickly
_SAME_PRICE = 1e-9  # sums of the same prices in another order differ by less

Offerings = NDArray[np.int64]  # by new node: the offering it would be


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
        self._steps: list[int] = []  # the ways that are a step from one another
        # None where there is but one size. A plan that is made of the largest is still judged: it may be compared with another one.
        self.ways = self._ways() if any(len(lane.members) > 1 for lane in state.offerings.lanes) else []
        self.binds = True  # whether the way that was chosen leaves few enough pending, as far as there was a choice

    def choose(self, arrivals: Arrivals) -> dict[int, int]:
        """By row of a new node: the offering to make it. `arrivals` are the pods planned for the sampled rows."""
        chosen = self._cheapest_that_binds(arrivals)
        return dict(zip(self.rows.tolist(), chosen.tolist(), strict=True))

    def _price(self, way: Offerings) -> float:
        return float(self.prices[way].sum())

    def _cheapest_that_binds(self, arrivals: Arrivals) -> Offerings:
        """Where no way is good enough, the one that leaves the fewest pending, if that is worth it; else the exact fit."""
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
        """From the exact fit to one even size after the other; between two of them with a few, half and so on of the nodes raised.

        No two cost nearly the same, but for the even sizes: where sizes are few, all nodes alike may bind where most of them do not.
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
        """What it costs to raise the nodes of one part, of two and so on from an even size to the next, as long as that is allowed."""
        below = self.exact
        for above in self._even_sizes():
            dearer = np.bincount(part, self.prices[above] - self.prices[below], minlength=_PARTS)
            for parts, price in enumerate((self._price(below) + dearer.cumsum()).tolist(), start=1):
                if price > self.most_price + _SAME_PRICE:
                    return
                yield price, parts, below, above
            below = above

    def _even_sizes(self) -> Iterator[Offerings]:
        """Every node as large as it can be had for a certain price, or as it must be, from the lowest such price to the highest.

        A node is never made smaller in one respect to be larger in another.
        """
        offerings, sets = self.state.offerings, self.state.sets
        # Nodes that may become the same and need as much are of one kind.
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
    """The first step that leaves few enough pending, or a cheaper way between it and the step below that does so, too."""
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
    """A single pod more or less is chance; what the next cheaper and the next dearer step leave tells of a way, too. That none is
    left twice in a row is no chance.
    """
    return pending + above == 0 or below + 2 * pending + above <= 4 * allowed
