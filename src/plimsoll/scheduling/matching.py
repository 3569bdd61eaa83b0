"""Placing pods of one class that ask for different amounts: many at a time, each where it fits best.

A few dozen pods are compared with a few hundred nodes in one table; each pod in turn takes the tightest place that is left in its
row of the table, and no node takes two of them at a time. So whatever a rule says about a node that has taken none of these pods
holds for the whole table, and rules about zones are asked again for each pod.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.board import Board, Ints, RowIndex
from plimsoll.scheduling.classes import Shape
from plimsoll.scheduling.neighbours import Rule
from plimsoll.scheduling.views import View

_PODS_AT_A_TIME = 64
_NODES_A_ZONE = (
    256  # of more nodes, every second, third, … in the order of their room: each size of gap stays represented
)


class Matcher:
    def __init__(self, board: Board) -> None:
        self.board = board

    def suits(self, view: View) -> bool:
        """Whether all that pods of the class do to each other is on one host, or by levels in domains of one key."""
        if view.has_preferences or (view.together is not None and view.together.first):
            return False
        keys = {rule.topology.key for rule in view.asked() if rule.crowding and not self._on_hosts(rule)}
        return len(keys) <= 1

    def _on_hosts(self, rule: Rule) -> bool:
        return rule.topology.of_hosts and rule.topology.private_rows >= self.board.size

    def match(self, view: View, shapes: Sequence[Shape], pods: list[int]) -> list[tuple[int, int]]:
        """Place some of `pods` (each the index of its shape, the largest first): pairs of a position in it and a row."""
        board = self.board
        placed: list[tuple[int, int]] = []
        left = list(range(len(pods)))
        for start, stop in ((0, board.first_new), (board.first_new, board.size)):
            if start == stop:
                continue
            waiting: list[int] = []
            for at in range(0, len(left), _PODS_AT_A_TIME):
                chunk = left[at : at + _PODS_AT_A_TIME]
                done = self._match_chunk(view, shapes, [pods[i] for i in chunk], start, stop)
                placed += [(chunk[i], row) for i, row in done]
                matched = {i for i, _ in done}
                waiting += [position for i, position in enumerate(chunk) if i not in matched]
            left = waiting
        return placed

    def _match_chunk(
        self, view: View, shapes: Sequence[Shape], pods: list[int], start: int, stop: int
    ) -> list[tuple[int, int]]:
        board = self.board
        vectors, weights = board.vectors(shapes)
        need = vectors[pods]  # pod × resource
        zonal = [rule for rule in view.asked() if rule.crowding and not self._on_hosts(rule)]
        rows, regions = self._candidates(view, need, start, stop, zonal)
        if not len(rows):
            return []
        cost = self._cost(need, rows)
        zonal_counters = [c for c in board.bumps(view.pod_class) if not c.topology.of_hosts]
        done: list[tuple[int, int]] = []
        columns: list[int] = []
        for i in range(len(pods)):
            column = self._cheapest(cost[i], regions, zonal)
            if column < 0:
                continue
            row = int(rows[column])
            cost[i + 1 :, column] = np.inf
            for counter in zonal_counters:
                counter.add_one(row)
            columns.append(column)
            done.append((i, row))
        if done:
            matched = [i for i, _ in done]
            amounts = need[matched].T
            slack = weights[[pods[i] for i in matched]]
            board.place_each(view.pod_class, rows[columns], amounts, slack, counted=zonal_counters)
            if not view.uniform and start >= board.first_new:
                board.narrow(rows[columns], view.lane_sets)
        return done

    def _candidates(
        self, view: View, need: Ints, start: int, stop: int, zonal: list[Rule]
    ) -> tuple[RowIndex, list[tuple[int, int, int]]]:
        """Rows that may take at least the smallest amounts, tightest first within each domain; and where domains begin."""
        board = self.board
        fits = view.mask()[start:stop]
        for resource, least in enumerate(need.min(axis=0).tolist()):
            if least:
                fits = fits & (board.free[resource, start:stop] >= least)
        rows: RowIndex = fits.nonzero()[0] + start
        slack = board.slack[rows]
        if not zonal:
            rows = self._thinned(rows[slack.argsort(kind="stable")])
            return rows, [(-1, 0, len(rows))]
        domains = zonal[0].topology.domain[rows]
        parts, regions, position = [], [], 0
        for domain in np.unique(domains).tolist():
            inside = (domains == domain).nonzero()[0]
            part = self._thinned(rows[inside[slack[inside].argsort(kind="stable")]])
            parts.append(part)
            regions.append((domain, position, position + len(part)))
            position += len(part)
        return (np.concatenate(parts) if parts else rows), regions

    @staticmethod
    def _thinned(rows: RowIndex) -> RowIndex:
        return rows[:: -(-len(rows) // _NODES_A_ZONE)] if len(rows) > _NODES_A_ZONE else rows

    def _cost(self, need: Ints, rows: RowIndex) -> NDArray[np.float64]:
        """Pod × row: how much room there is; infinite where the pod does not fit."""
        board = self.board
        fits: NDArray[np.bool_] | None = None
        for resource in range(need.shape[1]):
            wanted = need[:, resource]
            if wanted.any():
                enough = board.free[resource, rows] >= wanted[:, None]
                fits = enough if fits is None else fits & enough
        return np.where(fits, board.slack[rows], np.inf)  # type: ignore[arg-type]

    @staticmethod
    def _cheapest(cost: NDArray[np.float64], regions: list[tuple[int, int, int]], zonal: list[Rule]) -> int:
        if not zonal:
            column = int(cost.argmin())
            return column if cost[column] < np.inf else -1
        allowed = zonal[0].allowed_few()
        for rule in zonal[1:]:
            allowed = bytes([a & b for a, b in zip(allowed, rule.allowed_few(), strict=True)])
        tally = zonal[0].counter.by_tally()
        for domain, start, stop in sorted(regions, key=lambda region: tally[region[0]] if region[0] >= 0 else -1):
            if domain >= 0 and not allowed[domain]:
                continue
            column = start + int(cost[start:stop].argmin())
            if cost[column] < np.inf:
                return column
        return -1
