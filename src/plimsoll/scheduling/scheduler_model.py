"""A model of kube-scheduler that places the pods of a plan on its new nodes in order of arrival. Used by `headroom`.

It models amounts, zones of pods with a rule about zones, hosts that accept one pod of a kind, and the two scores that
decide otherwise (LeastAllocated and BalancedAllocation). It runs on samples of about fifty nodes with the pods planned
for them; all samples, arrival orders and node sizings run at once: one step places one pod in each.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import Exclusion
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.pod_groups import Numbers

_NODES_A_SAMPLE = 48
_SAMPLES = 4  # larger plans are sampled: about a thousand pods
_SCORED = (0, 1)  # indexes of CPU and memory, which decide the score

_PLENTY_LEFT = 0.3  # other resources are ignored if the pods together request less than this share
_ROUNDING = 1e-5  # tolerance for shares of a node in single precision, after dozens of subtractions

# Pods created in the same second have no known order, and many owners create theirs at once: besides the given order, a
# mixed one is tried.
_ORDERS = 2

_DRAWS = 8
_UNLUCKY = 5  # index of the draw to use, from the luckiest on

_APART = 0.85  # share of the pods that is simulated per sample
# The first pods are simulated once per so many ways, the cheapest first: where they go differs little, as sizes do. If
# so few nodes are planned that all are simulated, a single pod decides, and each way is simulated separately.
_ALIKE = 2

Floats: TypeAlias = NDArray[np.float32]


class Arrivals(NamedTuple):
    """The pods that are planned for sampled nodes."""

    numbers: Numbers  # by pod: its position in order of creation
    rows: Numbers
    all_constraints: list[ClassConstraints]
    constraints_of: Numbers  # by pod: index of its constraints
    shapes: list[Shape]
    shape_of: Numbers  # by pod: index of its shape


def dealt(rows: list[int]) -> list[list[int]]:
    """Deal nodes round-robin into samples, in opening order, so that each sample has its share of every kind."""
    number = (
        max(1, -(-len(rows) // _NODES_A_SAMPLE)) | 1
    )  # odd: ways of sizing nodes take every second, fourth and so on
    return [rows[s::number] for s in range(min(number, _SAMPLES))]


class KubeSchedulerModel:
    """Simulates all columns at once. A column is a set of nodes and an arrival order.

    Arrays are way × column × node, where a way gives the offering of each node. A pod's requests and allowed nodes are
    the same in every way, so most steps work on long rows. The first pods of each order are simulated per sample,
    several at a time, because their position matters little; late pods, which find little room, choose among the nodes
    of all samples.
    """

    def __init__(self, state: PlanState, samples: list[list[int]], arrivals: Arrivals) -> None:
        self.pods = len(arrivals.numbers)
        self._state = state
        self._samples = samples
        self._width = max(len(sample) for sample in samples)
        self._resources = self._scarce(arrivals.shapes)
        self._lanes = [[state.sets[index][0] for index in state.set_of[sample].tolist()] for sample in samples]
        self._templates = [lane.template for lane in state.offerings.lanes]
        self._read(arrivals)

    def _scarce(self, shapes: list[Shape]) -> list[int]:
        """Return the resources that matter: CPU, memory, and others that can run out."""
        state = self._state
        rows = [row for sample in self._samples for row in sample]
        held, there = state.held(np.array(rows)).sum(axis=1), state.offerings.caps[:, state.offering[rows]].sum(axis=1)
        requested = {resource for shape in shapes for resource, _ in shape}.difference(_SCORED)
        return [*_SCORED, *sorted(r for r in requested if held[r] > _PLENTY_LEFT * there[r])]

    def _read(self, arrivals: Arrivals) -> None:
        """Write the requests of each pod to arrays, and the pods to queues."""
        zonal: list[bool] = []  # by constraints: whether there is a rule about zones
        exclusions: list[int] = []  # by constraints: what it must not share a host with; -1: nothing
        circles: list[int] = []  # by constraints: the affinity group that has no pod yet; -1: none
        lonely: dict[int, int] = {}
        affinity_group: dict[int, tuple[int, ClassConstraints]] = {}
        for constraints in arrivals.all_constraints:
            counter, wanted = _alone_on_host(constraints), _affinity_group_to_come(constraints)
            zonal.append(_has_rule_about_zones(constraints))
            exclusions.append(-1 if counter is None else lonely.setdefault(counter, len(lonely)))
            circles.append(
                -1 if wanted is None else affinity_group.setdefault(wanted, (len(affinity_group), constraints))[0]
            )
        lane_of = np.zeros(self._state.size, np.intp)  # by row
        sample_of = np.zeros(self._state.size, np.intp)
        for number, (sample, lanes) in enumerate(zip(self._samples, self._lanes, strict=True)):
            lane_of[sample], sample_of[sample] = lanes, number
        # The element after the last requests nothing and fits nowhere: it pads shorter queues.
        amounts = np.array([self._state.vector(shape) for shape in arrivals.shapes], np.float32)[:, self._resources]
        self._requests: Floats = np.append(
            amounts[arrivals.shape_of], np.zeros((1, len(self._resources)), np.float32), axis=0
        )
        # A lane for pods with a rule about zones; after the lanes, one entry per template.
        lane = lane_of[arrivals.rows]
        template = len(self._templates) + np.array(self._templates)[lane]
        self._place = np.append(np.where(np.array(zonal)[arrivals.constraints_of], lane, template), -1)
        self._exclusion = np.append(np.array(exclusions)[arrivals.constraints_of], -1)
        self._exclusions = len(lonely)
        draw = Random(0)  # noqa: S311 - a fixed seed makes plans reproducible
        # Higher priorities come first.
        turns = np.array([-constraints.pod_class.priority for constraints in arrivals.all_constraints])[
            arrivals.constraints_of
        ]
        self._orders = _orders(sample_of[arrivals.rows], turns, arrivals.numbers, draw)
        self._circle = np.append(np.array(circles)[arrivals.constraints_of], -1)
        sizes = np.bincount(self._circle[:-1] + 1, minlength=1 + len(affinity_group))[1:].tolist()
        groups = [(constraints, sizes[circle]) for circle, constraints in affinity_group.values()]
        self._drawn = [self._lanes_drawn(groups, draw) for _ in range(_ORDERS)] if groups else []

    def _lanes_drawn(self, groups: list[tuple[ClassConstraints, int]], draw: Random) -> list[int]:
        """By affinity group: the lane of its first pod, which the others follow; -1 if none is feasible.

        kube-scheduler does not know the plan, so it may choose any zone, and the same one for many groups. An
        unfavourable draw of several is taken.
        """
        of_nodes = [lane for lanes in self._lanes for lane in lanes]
        there = Counter(of_nodes)
        allowed = [[lane for lane in of_nodes if constraints.lane_sets[lane]] for constraints, _ in groups]
        draws = []
        for _ in range(_DRAWS):
            lanes = [draw.choice(lanes) if lanes else -1 for lanes in allowed]
            batches: Counter[int] = Counter()
            for lane, (_, size) in zip(lanes, groups, strict=True):
                batches[lane] += size
            draws.append((max(batch / max(1, there[lane]) for lane, batch in batches.items()), lanes))
        return sorted(draws)[_UNLUCKY][1]

    def pending(self, ways: NDArray[np.int64]) -> list[int]:
        """By way (a row of offerings, one per node, sample after sample): the number of pods without a place in its
        worst arrival order.
        """
        samples = len(self._samples)
        offerings = self._offerings(ways)
        # One resource at a time: indexed together, resources would interleave in memory and each step would take twice
        # as long.
        caps = np.array([self._state.offerings.caps[resource][offerings] for resource in self._resources], np.float32)
        step = _ALIKE if samples == _SAMPLES else 1
        alike = np.arange(len(ways)) // step
        nodes = Nodes(caps[:, ::step], self._closed(), self._exclusions)
        apart = int(_APART * max(map(len, self._orders[0].queues))) if samples > 1 else 0
        first = [queue[:apart] for order in self._orders for queue in order.queues]
        last = [order.merged([queue[apart:] for queue in order.queues]) for order in self._orders]
        placed = self._play(nodes, first).reshape(-1, _ORDERS, samples).sum(axis=2)[alike]
        placed += self._play(nodes.enlarged(caps, alike), last)  # the samples of an order are one column from here on
        pending: list[int] = (self.pods - placed.min(axis=1)).tolist()
        return pending

    def _play(self, nodes: Nodes, queues: list[Numbers]) -> NDArray[np.int64]:
        """Let the pods of each queue choose, one after the other, in all columns at once. Way × column: the number
        placed.
        """
        queue = np.full((max(map(len, queues)), len(queues)), -1)
        for column, pods in enumerate(queues):
            queue[: len(pods), column] = pods
        place = self._place[queue]
        if self._drawn:
            # Repeated for all columns of an order.
            drawn = np.repeat(np.array(self._drawn), len(queues) // _ORDERS, axis=0)
            circle = self._circle[queue]
            lanes = drawn[np.arange(len(queues)), circle]
            place = np.where((circle >= 0) & (lanes >= 0), lanes, place)
        return nodes.choose(self._requests[queue], place, self._exclusion[queue])

    def _offerings(self, ways: NDArray[np.int64]) -> Numbers:
        """Way × node, of all columns."""
        offering = np.zeros((len(ways), len(self._samples), self._width), np.intp)
        start = 0
        for s, sample in enumerate(self._samples):
            offering[:, s, : len(sample)] = ways[:, start : start + len(sample)]
            start += len(sample)
        return np.tile(offering.reshape(len(ways), -1), _ORDERS)

    def _closed(self) -> Floats:
        """By place (a lane, then a template; the last is none) and node of all columns: 0 where the node belongs to it,
        else minus infinity.
        """
        lanes = len(self._templates)
        closed = np.full((lanes + max(self._templates) + 2, len(self._samples), self._width), -np.inf, np.float32)
        for s, of_nodes in enumerate(self._lanes):
            for node, lane in enumerate(of_nodes):
                closed[lane, s, node] = closed[lanes + self._templates[lane], s, node] = 0.0
        return np.tile(closed.reshape(len(closed), -1), _ORDERS)


class Nodes:
    """Nodes while they fill up. Arrays end in way × node, column after column."""

    def __init__(self, caps: Floats, closed: Floats, exclusions: int) -> None:
        self._caps = caps
        self._share: Floats = np.reciprocal(np.maximum(caps, 1.0, dtype=np.float32))  # one unit as a share of the node
        self._free: Floats = (caps > 0).astype(np.float32)  # as a share of the node
        self._taken: Floats = np.zeros(
            (exclusions, *caps.shape[1:]), np.float32
        )  # minus infinity where a conflicting pod is
        self._closed = closed  # by place, without ways

    def enlarged(self, caps: Floats, ways: Numbers) -> Nodes:
        """Return the same pods on nodes that are no smaller: for each row of `caps`, those of one of the ways."""
        larger = Nodes(caps, self._closed, len(self._taken))
        held = ((self._caps > 0) - self._free) * self._caps
        larger._free -= held[:, ways] * larger._share
        larger._taken = self._taken[:, ways]
        return larger

    def choose(self, requests: Floats, place: Numbers, exclusions: Numbers) -> NDArray[np.int64]:
        """Place one pod of each column after the other (step × column, and for `requests` resource) on its best node."""
        share, free = self._share, self._free
        (ways, nodes), (steps, columns) = free.shape[1:], place.shape
        width = nodes // columns
        left: Floats = np.zeros_like(free)
        score: Floats = np.zeros((ways, nodes), np.float32)
        by_column = score.reshape(ways, columns, width)
        flat_score = score.reshape(-1)
        flat_taken = self._taken.reshape(len(self._taken), ways * nodes)
        # Views used in every step, created once: creating them costs as much as some of the work on them.
        pairs = list(zip(free.reshape(len(free), -1), left.reshape(len(left), -1), strict=True))
        (cpu, memory), others = left[: len(_SCORED)], list(left[len(_SCORED) :])
        scores = [by_column[:, column] for column in range(columns)]
        taken = [
            [of_exclusion.reshape(ways, columns, width)[:, c] for c in range(columns)] for of_exclusion in flat_taken
        ]
        closed = self._closed.reshape(-1, columns, width)[place, np.arange(columns)].reshape(steps, nodes)
        by_resource = np.repeat(requests.transpose(0, 2, 1), width, axis=2)  # step × resource × node
        by_resource[:, 0] -= closed  # on a node that is not allowed, a pod would request more than exists
        first = np.arange(ways)[:, None] * nodes + np.arange(columns) * width  # node of each way and column
        all_found = np.zeros((steps, ways, columns), np.bool_)
        alone = [[(c, exclusion) for c, exclusion in enumerate(step) if exclusion >= 0] for step in exclusions.tolist()]
        for wanted, found, shy in zip(by_resource[:, :, None], all_found, alone, strict=True):
            np.multiply(wanted, share, out=left)
            np.subtract(free, left, out=left)
            # Twice the minimum is the sum minus the difference: LeastAllocated plus BalancedAllocation.
            np.minimum(cpu, memory, out=score)
            for lacking in others:
                np.copyto(score, -np.inf, where=lacking < -_ROUNDING)
            for column, exclusion in shy:
                np.add(scores[column], taken[exclusion][column], out=scores[column])
            best = by_column.argmax(axis=2)
            best += first
            np.greater_equal(flat_score.take(best), -_ROUNDING, out=found)
            at = best[found]
            for before, after in pairs:
                before[at] = after.take(at)
            for column, exclusion in shy:
                flat_taken[exclusion][best[:, column][found[:, column]]] = -np.inf
        placed: NDArray[np.int64] = all_found.sum(axis=0)
        return placed


class _Order(NamedTuple):
    """The pods of each sample in the order in which kube-scheduler takes them."""

    turns: Numbers  # by pod: inverse priority
    times: NDArray[np.float64]  # by pod: arrival time among equal priorities
    queues: list[Numbers]

    def merged(self, queues: list[Numbers]) -> Numbers:
        pods = np.concatenate(queues)
        found: Numbers = pods[np.lexsort((self.times[pods], self.turns[pods]))]
        return found


def _orders(sample_of: Numbers, turns: Numbers, numbers: Numbers, draw: Random) -> list[_Order]:
    by_sample = sample_of.argsort(kind="stable")
    ends = np.bincount(sample_of).cumsum()[:-1]
    mixed = np.empty(len(numbers))
    mixed[by_sample] = [draw.random() for _ in range(len(numbers))]
    orders = []
    for times in (numbers.astype(np.float64), mixed):
        queues = np.split(np.lexsort((times, turns, sample_of)), ends)
        orders.append(_Order(turns, times, queues))
    return orders


def _has_rule_about_zones(constraints: ClassConstraints) -> bool:
    return constraints.affinity_rule is not None or any(
        not rule.topology.of_hosts and not rule.protects for rule in constraints.rules
    )


def _affinity_group_to_come(constraints: ClassConstraints) -> int | None:
    """Return a key of pods that stay together in a zone and of which none is running yet."""
    affinity_rule = constraints.affinity_rule
    if (
        affinity_rule is None
        or not affinity_rule.wants_itself
        or any(c.at_first or c.topology.of_hosts for c in affinity_rule.counters)
    ):
        return None
    return id(affinity_rule.counters[0])


def _alone_on_host(constraints: ClassConstraints) -> int | None:
    """Return a key of pods that must not share a host: the counter that they read and increment."""
    for rule in constraints.rules:
        if isinstance(rule, Exclusion) and rule.self_limiting and rule.topology.of_hosts:
            return id(rule.counter)
    return None
