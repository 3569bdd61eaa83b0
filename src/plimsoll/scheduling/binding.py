"""A model of kube-scheduler that places the pods of a plan on its new nodes, in order of arrival and its own way.

It knows amounts, zones of pods that have a rule about zones, hosts that take one pod of a kind, and the two scores that decide where
nothing else does (LeastAllocated and BalancedAllocation). It runs on samples of some fifty nodes with the pods planned for them, all
samples and all ways of sizing the nodes at once: one step places one pod in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.board import Board
from plimsoll.scheduling.classes import Shape
from plimsoll.scheduling.neighbours import NoneThere
from plimsoll.scheduling.views import View

_NODES_A_SAMPLE = 48
_SAMPLES = 4  # of more nodes not all are looked at: these are about a thousand pods
_SCORED = 2  # the first resources, CPU and memory, decide which node is liked best

_PLENTY_LEFT = 0.3  # other resources are left out if the pods together ask for less than this share
_ROUNDING = 1e-5  # of shares of a node in single precision, after dozens of subtractions

Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
Indexes = NDArray[np.intp]


class Arrival(NamedTuple):
    """A pod that is planned for a new node."""

    number: int  # its place in the order in which the pods were made
    row: int
    view: View
    shape: Shape


def _turn(arrival: Arrival) -> tuple[int, int]:
    """When kube-scheduler comes to the pod: the more important first, then the older."""
    return -arrival.view.pod_class.priority, arrival.number


def dealt(rows: list[int]) -> list[list[int]]:
    """Samples of nodes with their share of every kind: dealt out like cards, in the order of opening."""
    number = max(1, -(-len(rows) // _NODES_A_SAMPLE)) | 1  # odd: ways of sizing nodes take every second, fourth, eighth
    return [rows[s::number] for s in range(min(number, _SAMPLES))]


class BindingModel:
    """Arrays are way × sample × node; a way says which offering each node is."""

    def __init__(self, board: Board, samples: list[list[int]], arrivals: list[Arrival]) -> None:
        self.samples = samples
        self.width = max(len(sample) for sample in samples)
        self._caps = board.offerings.caps
        self._resources = self._scarce(board, arrivals)
        lanes = [[board.sets[int(board.set_of[row])][0] for row in sample] for sample in samples]
        templates = [lane.template for lane in board.offerings.lanes]
        sample_of = {row: s for s, sample in enumerate(samples) for row in sample}
        lane_of = {row: lanes[s][i] for s, sample in enumerate(samples) for i, row in enumerate(sample)}
        self._read(sorted(arrivals, key=_turn), sample_of, lane_of, templates)
        # By sample and place (a lane, or behind those a template): nought where a node is there, else minus infinity.
        places = len(templates) + max(templates) + 1
        self._closed: Floats = np.full((len(samples), places, self.width), -np.inf, np.float32)
        for s, of_nodes in enumerate(lanes):
            for node, lane in enumerate(of_nodes):
                self._closed[s, lane, node] = self._closed[s, len(templates) + templates[lane], node] = 0.0

    def _scarce(self, board: Board, arrivals: list[Arrival]) -> list[int]:
        """The resources that matter, CPU and memory before others: what little of is asked for does not run out."""
        rows = [row for sample in self.samples for row in sample]
        held, there = board.held[:, rows].sum(axis=1), self._caps[:, board.offering[rows]].sum(axis=1)
        asked = {resource for arrival in arrivals for resource, _ in arrival.shape}
        return sorted(r for r in asked if r < _SCORED or held[r] > _PLENTY_LEFT * there[r])

    def _read(
        self, arrivals: list[Arrival], sample_of: dict[int, int], lane_of: dict[int, int], templates: list[int]
    ) -> None:
        """Put what pods want into arrays, step × sample."""
        queues: list[list[Arrival]] = [[] for _ in self.samples]
        for arrival in arrivals:
            queues[sample_of[arrival.row]].append(arrival)
        steps = max(len(queue) for queue in queues)
        wants = np.zeros((steps, len(queues), len(self._resources)), np.float32)
        self._waits = np.zeros((steps, len(queues)), np.bool_)
        self._place = np.zeros((steps, len(queues)), np.intp)
        self._kind = np.full((steps, len(queues)), -1)  # what it must not meet on a host; -1: nothing
        known: dict[int, tuple[bool, int]] = {}
        kinds: dict[int, int] = {}
        vectors: dict[Shape, list[int]] = {}
        for s, queue in enumerate(queues):
            for t, (_, row, view, shape) in enumerate(queue):
                what = known.get(id(view))
                if what is None:
                    counter = _alone_on_host(view)
                    kind = -1 if counter is None else kinds.setdefault(counter, len(kinds))
                    what = known[id(view)] = (_has_rule_about_zones(view), kind)
                vector = vectors.get(shape)
                if vector is None:
                    amounts = dict(shape)
                    vector = vectors[shape] = [amounts.get(resource, 0) for resource in self._resources]
                lane = lane_of[row]
                wants[t, s] = vector
                self._waits[t, s] = True
                self._place[t, s] = lane if what[0] else len(templates) + templates[lane]
                self._kind[t, s] = what[1]
        self._wants = np.ascontiguousarray(wants.transpose(2, 0, 1))[
            :, :, None, :, None
        ]  # resource × step × 1 × sample × 1
        self._kinds = len(kinds)

    def pending(self, ways: NDArray[np.int64]) -> list[float]:
        """By way (a row of offerings, one a node, sample after sample): the share of pods that found no place."""
        samples, width = len(self.samples), self.width
        offering = np.zeros((len(ways), samples, width), np.intp)
        start = 0
        for s, sample in enumerate(self.samples):
            offering[:, s, : len(sample)] = ways[:, start : start + len(sample)]
            start += len(sample)
        caps = self._caps[self._resources][:, offering].astype(np.float32)
        share_of_one: Floats = np.reciprocal(
            np.maximum(caps, 1.0, dtype=np.float32)
        )  # what one unit is, as a share of the node
        free: Floats = (caps > 0).astype(np.float32)
        taken = np.zeros((self._kinds, *offering.shape), np.float32)  # minus infinity where one of the kind is
        failed = np.zeros(len(ways))
        by_way, by_sample = np.arange(len(ways))[:, None], np.arange(samples)
        closed = self._closed[by_sample, self._place]  # step × sample × node
        scored = sum(resource < _SCORED for resource in self._resources)
        score: Floats = np.zeros(offering.shape, np.float32)
        left: Floats = np.zeros_like(free)
        for t, (waits, waiting, lonely, kinds) in enumerate(self._steps()):
            np.multiply(self._wants[:, t], share_of_one, out=left)
            np.subtract(free, left, out=left)
            # Twice the lesser of the two is the sum less the difference: least allocated, and balanced.
            if scored == _SCORED:
                np.minimum(left[0], left[1], out=score)
            elif scored:
                score[:] = left[0]
            else:
                score.fill(0.0)
            for r in range(scored, len(left)):
                score[left[r] < -_ROUNDING] = -np.inf
            score += closed[t]
            if lonely is not None:
                score[:, lonely] += taken[kinds, :, lonely].swapaxes(0, 1)
            best = score.argmax(axis=2)
            found = (score[by_way, by_sample, best] >= -_ROUNDING) & waits
            w, s = found.nonzero()
            failed += waiting
            failed -= np.bincount(w, minlength=len(ways))
            n = best[w, s]
            free[:, w, s, n] = left[:, w, s, n]
            if lonely is not None:
                k = self._kind[t][s]
                of_a_kind = k >= 0
                taken[k[of_a_kind], w[of_a_kind], s[of_a_kind], n[of_a_kind]] = -np.inf
        shares: list[float] = (failed / max(1, int(self._waits.sum()))).tolist()
        return shares

    def _steps(self) -> Iterator[tuple[Bools, int, Indexes | None, Indexes]]:
        """By step: which samples have a pod left and how many, and which of those pods are of a lonely kind, of which."""
        some: list[bool] = np.any(self._kind >= 0, axis=1).tolist()
        for waits, waiting, kind, any_kind in zip(
            self._waits, self._waits.sum(axis=1).tolist(), self._kind, some, strict=True
        ):
            lonely = (kind >= 0).nonzero()[0] if any_kind else None
            yield waits, waiting, lonely, kind[lonely] if lonely is not None else kind


def _has_rule_about_zones(view: View) -> bool:
    return view.together is not None or any(not rule.topology.of_hosts and not rule.protects for rule in view.rules)


def _alone_on_host(view: View) -> int | None:
    """What tells pods that must not share a host from others: the counter that they look at and are counted by."""
    for rule in view.rules:
        if isinstance(rule, NoneThere) and rule.crowding and rule.topology.of_hosts:
            return id(rule.counter)
    return None
