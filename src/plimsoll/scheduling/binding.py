"""A model of kube-scheduler that places the pods of a plan on its new nodes, in order of arrival and its own way.

It knows amounts, zones of pods that have a rule about zones, hosts that take one pod of a kind, and the two scores that decide where
nothing else does (LeastAllocated and BalancedAllocation). It runs on samples of some fifty nodes with the pods planned for them, all
samples and all sizes of nodes that are asked about at once: one step places one pod in each of them.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.board import Board, Ints
from plimsoll.scheduling.neighbours import NoneThere
from plimsoll.scheduling.views import View

_NODES_A_SAMPLE = 48
_SAMPLES = 4  # of more nodes not all are looked at: these are about a thousand pods

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Planned(NamedTuple):
    """Equal pods on one new node."""

    row: int
    view: View
    amounts: Ints
    pods: int


class BindingModel:
    """Arrays are way × sample × node; a way says which offering each node is."""

    def __init__(self, board: Board, rows: NDArray[np.int64], planned: list[Planned], ways: NDArray[np.int64]) -> None:
        samples = _dealt(len(rows))
        width = max(len(sample) for sample in samples)
        index = np.zeros((len(samples), width), np.intp)  # sample × node → position in `rows`
        there = np.zeros((len(samples), width), np.bool_)
        for s, sample in enumerate(samples):
            index[s, : len(sample)] = sample
            there[s, : len(sample)] = True
        arrivals = _arrivals(
            planned, {int(rows[i]): s for s, sample in enumerate(samples) for i in sample}, len(samples)
        )

        resources = np.flatnonzero(np.any([one.amounts > 0 for one in planned], axis=0))
        caps = board.offerings.caps[resources]
        self.caps: Ints = np.where(there, caps[:, ways[:, index]], 0)  # resource × way × sample × node
        lane_of_row = np.array([board.sets[int(s)][0] for s in board.set_of[rows]])
        self.lane = np.where(there, lane_of_row[index], -1)
        self.template = np.array([lane.template for lane in board.offerings.lanes])[self.lane]
        lanes = dict(zip(rows.tolist(), lane_of_row.tolist(), strict=True))
        self._read(arrivals, resources, lanes, [lane.template for lane in board.offerings.lanes])
        self.scored = [i for i, resource in enumerate(resources.tolist()) if resource < 2]  # CPU and memory

    def _read(
        self, arrivals: list[list[Planned]], resources: NDArray[np.intp], lanes: dict[int, int], templates: list[int]
    ) -> None:
        """Put what pods want into arrays, step × sample."""
        steps, samples = max(len(pods) for pods in arrivals), len(arrivals)
        self.need = np.zeros((steps, len(resources), samples), np.int64)
        self.active = np.zeros((steps, samples), np.bool_)
        allowed = np.zeros((steps, *self.lane.shape), np.bool_)
        alone = np.full((steps, samples), -1)
        kinds: dict[int, int] = {}
        for s, pods in enumerate(arrivals):
            for t, one in enumerate(pods):
                lane = lanes[one.row]
                self.need[t, :, s] = one.amounts[resources]
                self.active[t, s] = True
                zonal = _has_rule_about_zones(one.view)
                allowed[t, s] = self.lane[s] == lane if zonal else self.template[s] == templates[lane]
                counter = _alone_on_host(one.view)
                if counter is not None:
                    alone[t, s] = kinds.setdefault(counter, len(kinds))
        self.allowed: Bools = allowed
        self.alone: list[Bools] = [alone == kind for kind in range(len(kinds))]  # by kind: step × sample

    def pending(self) -> list[float]:
        """By way: the share of pods that found no place."""
        free = self.caps.copy()
        _, ways, samples, width = free.shape
        size: list[Floats] = [np.maximum(self.caps[i], 1).astype(np.float64) for i in self.scored]
        taken = [np.zeros((ways, samples, width), np.bool_) for _ in self.alone]
        failed = np.zeros(ways)
        at_way, at_sample = np.arange(ways)[:, None], np.arange(samples)[None, :]
        for t in range(len(self.need)):
            need = self.need[t][:, None, :, None]
            left = free - need
            fits = self.allowed[t] & (left >= 0).all(axis=0)
            for kind, alone in enumerate(self.alone):
                fits &= ~(taken[kind] & alone[t][:, None])
            shares = [left[r] / size[i] for i, r in enumerate(self.scored)]
            score = shares[0] if len(shares) == 1 else np.zeros(fits.shape)
            if len(shares) == 2:  # twice the lesser is the sum less the difference: least allocated, and balanced
                score = np.minimum(shares[0], shares[1])
            best = np.where(fits, score, -np.inf).argmax(axis=2)
            found = fits[at_way, at_sample, best] & self.active[t]
            failed += (self.active[t] & ~found).sum(axis=1)
            free[:, at_way, at_sample, best] -= need[:, :, :, 0] * found
            for kind, alone in enumerate(self.alone):
                taken[kind][at_way, at_sample, best] |= found & alone[t]
        shares_pending: list[float] = (failed / max(1, int(self.active.sum()))).tolist()
        return shares_pending


def _dealt(nodes: int) -> list[list[int]]:
    """Samples with their share of every kind of node: dealt out like cards, in the order of opening."""
    number = max(1, -(-nodes // _NODES_A_SAMPLE))
    return [list(range(s, nodes, number)) for s in range(min(number, _SAMPLES))]


def _arrivals(planned: list[Planned], sample_of: dict[int, int], samples: int) -> list[list[Planned]]:
    """The pods of each sample in an order of arrival that has nothing to do with the plan, but is always the same."""
    arrivals: list[list[Planned]] = [[] for _ in range(samples)]
    for one in planned:
        if one.row in sample_of:
            arrivals[sample_of[one.row]] += [one] * one.pods
    return [_shuffled(pods) for pods in arrivals]


def _shuffled(pods: list[Planned]) -> list[Planned]:
    """A stride that shares no factor with the length meets everybody once; the golden section parts neighbours best."""
    length = len(pods)
    stride = max(1, round(length * 0.618))
    while gcd(stride, length) != 1:
        stride += 1
    return [pods[i * stride % length] for i in range(length)]


def _has_rule_about_zones(view: View) -> bool:
    return view.together is not None or any(not rule.topology.of_hosts and not rule.protects for rule in view.rules)


def _alone_on_host(view: View) -> int | None:
    """What tells pods that must not share a host from others: the counter that they look at and are counted by."""
    for rule in view.rules:
        if isinstance(rule, NoneThere) and rule.crowding and rule.topology.of_hosts:
            return id(rule.counter)
    return None
