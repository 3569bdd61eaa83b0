"""Chooses the sizes of new nodes while pods are placed. Used by `group_placement` and `bulk_placement`.

A new node starts as the cheapest offering that holds its first pods. When nothing fits any more, the nodes that cost
least afterwards are raised to the next larger offering, all at once. At the end each node becomes the cheapest offering
that holds its pods. Nodes grow evenly, and no size has to be guessed beforehand.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import PLENTY
from plimsoll.scheduling.offerings import cheapest, listed
from plimsoll.scheduling.plan_state import Ints, NodeOpening, PlanState, RowIndex
from plimsoll.scheduling.pod_equivalence import Shape
from plimsoll.scheduling.topology import Mask


class NodeSizer:
    def __init__(self, state: PlanState, *, first_fit: bool) -> None:
        self.state = state
        self.first_fit = first_fit
        self._most: dict[int, Ints] = {}

    def opening(
        self, constraints: ClassConstraints, lane_index: int, shape: Shape, pods: int
    ) -> tuple[int, int] | None:
        """Return which member of a lane to open for `pods` pods, and how many it holds. None if it holds not even one."""
        lane = self.state.offerings.lanes[lane_index]
        members = lane.holding_one(shape, constraints.lane_sets[lane_index])
        if not members:
            return None
        if pods == 1:
            return cheapest(members), 1
        holds = np.full(len(lane.members), 2**31)
        for resource, amount in shape:
            np.minimum(holds, lane.caps[resource] // amount, out=holds)
        if members != lane.everything:
            holds[[i for i in range(len(holds)) if not members >> i & 1]] = 0
        if self.first_fit:  # for the first pod; it grows to the largest while there is no other node for the rest
            return cheapest(members), min(pods, int(holds.max()))
        enough = np.flatnonzero(holds >= pods)
        member = int(enough[0]) if len(enough) else int(holds.argmax())
        return member, min(pods, int(holds[member]))

    def openings(
        self, constraints: ClassConstraints, shape: Shape, pods: int, closed: Collection[int]
    ) -> list[NodeOpening]:
        """Return nodes to open for up to `pods` pods, in the lanes that need the fewest and then the cheapest nodes.
        They are reserved.
        """
        offerings, size = self.state.offerings, self.state.size
        lanes = offerings.lanes
        self_limiting = [rule for rule in constraints.active_rules() if rule.self_limiting]
        a_node = min((rule.room_on_new_host() for rule in self_limiting), default=PLENTY)
        best: tuple[float, ...] | None = None
        ties: list[tuple[int, int, int]] = []
        for index, lane in enumerate(lanes):
            if index in closed or not constraints.allows_lane(index):
                continue
            choice = self.opening(constraints, index, shape, min(pods, a_node))
            if choice is None:
                continue
            member, holds = choice
            liked = 0 if constraints.offering_scores is None else int(constraints.offering_scores[lane.members[member]])
            priority = offerings.templates[lane.template].priority
            rank = (-priority, -liked, 0 if self.first_fit else -holds, float(lane.prices[member]))
            if best is None or rank < best:
                best, ties = rank, []
            if rank == best:
                ties.append((index, member, holds))
        if best is None:
            return []
        ties.sort(key=lambda tie: (lanes[tie[0]].nodes_opened, tie[0]))
        nodes = -(-pods // ties[0][2])
        if constraints.counts_daemons or not all(rule.topology.each_row_its_own(size) for rule in self_limiting):
            nodes = 1  # the next node may be needed in another zone
        found = []
        for position, (index, member, _) in enumerate(ties):  # an equal number per zone, where nothing else decides
            lane = lanes[index]
            share = min(-(-nodes // (len(ties) - position)), offerings.can_open(lane))
            if share:
                offerings.opened(lane, share)
                found.append(NodeOpening(index, constraints.lane_sets[index], int(lane.members[member]), share))
                nodes -= share
        return found

    def sizes_are_fixed(self) -> bool:
        """Whether no new node can change its offering."""
        return all(members & (members - 1) == 0 for _, members in self.state.sets)

    def could_hold(self, constraints: ClassConstraints, shape: Shape) -> list[int]:
        """Return new nodes, in opening order, that may hold one more pod if they grow."""
        state = self.state
        rows = np.flatnonzero(constraints.growable()) + state.first_new
        for resource, amount in shape:
            most = np.array([self._largest(index)[resource] for index in range(len(state.sets))])
            rows = rows[state.held(rows)[resource] + amount <= most[state.set_of[rows]]]
        found: list[int] = rows.tolist()
        return found

    def _largest(self, set_index: int) -> Ints:
        """By resource: the maximum of any member of a set."""
        if set_index not in self._most:
            lane, members = self.state.sets[set_index]
            caps = self.state.offerings.lanes[lane].caps[:, listed(members)]
            self._most[set_index] = caps.max(axis=1, initial=0)
        return self._most[set_index]

    def resize_for(self, constraints: ClassConstraints, row: int, shape: Shape, pods: int) -> int:
        """Switch a new node to the cheapest offering that holds the most further pods; return how many."""
        state = self.state
        lane_index, members = state.sets[int(state.set_of[row])]
        lane = state.offerings.lanes[lane_index]
        among = members & constraints.lane_sets[lane_index]
        held = state.held(row).tolist()
        holds = np.full(len(lane.members), pods)
        for resource, amount in shape:
            np.minimum(holds, (lane.caps[resource] - held[resource]) // amount, out=holds)
        fitting = lane.holding(list(enumerate(held)), among)
        candidates = listed(fitting)
        if not candidates or (most := int(holds[candidates].max())) <= 0:
            return 0
        member = next(m for m in candidates if holds[m] == most)
        state.resize(np.array([row]), int(lane.members[member]))
        return most

    def grow(self, constraints: ClassConstraints, shape: Shape, growable: Mask) -> bool:
        """Switch some new nodes to larger offerings, so that at least one of them holds one more pod."""
        rows = np.flatnonzero(growable) + self.state.first_new
        if not len(rows):
            return False
        return self.climb(constraints, shape, rows) or self._grow_one(constraints, shape, rows)

    def climb(self, constraints: ClassConstraints, shape: Shape, rows: RowIndex) -> bool:
        """Raise the nodes that cost least afterwards to the rung they need."""
        state = self.state
        target = np.full(len(rows), -1)
        price = np.full(len(rows), np.inf)
        sets = state.set_of[rows]
        for index in sorted(set(sets.tolist())):
            lane, members = state.sets[index]
            ladder = state.ladder(lane, members & constraints.lane_sets[lane])
            at = np.flatnonzero(sets == index)
            wanted = state.held(rows[at])
            for resource, amount in shape:
                wanted[resource] += amount
            rung = ladder.rung_for(wanted)
            fits = rung < len(ladder.members)
            at, rung = at[fits], rung[fits]
            target[at] = state.offerings.lanes[lane].members[ladder.members[rung]]
            price[at] = ladder.prices[rung]
        lowest = price.min(initial=np.inf)
        if lowest == np.inf:
            return False
        chosen = price <= lowest
        state.resize(rows[chosen], target[chosen])
        return True

    def _grow_one(self, constraints: ClassConstraints, shape: Shape, rows: RowIndex) -> bool:
        """Where sizes form no ladder: raise the one node whose next offering adds the least cost."""
        state = self.state
        best: tuple[float, int, int] | None = None
        for row in rows.tolist():
            lane = state.lane_at(row)
            members = state.holding(row, shape) & constraints.lane_sets[state.sets[state.set_of[row]][0]]
            if not members:
                continue
            member = cheapest(members)
            dearer = float(lane.prices[member]) - state.offerings.prices[int(state.offering[row])]
            if best is None or dearer < best[0]:
                best = (dearer, row, int(lane.members[member]))
            if self.first_fit:
                break
        if best is None:
            return False
        state.resize(np.array([best[1]]), best[2])
        return True
