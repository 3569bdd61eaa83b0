"""Which nodes are feasible whatever other pods do: selectors, taints, volumes and DaemonSet pods of new nodes."""

from __future__ import annotations

import numpy as np

from plimsoll.scheduling.node_equivalence import NodeClasses
from plimsoll.scheduling.offerings import as_set
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.topology import Mask, Watched


class StaticFeasibility:
    """Static feasibility of all classes with the same node requirements, as masks over rows and over offerings."""

    def __init__(self, state: PlanState, pod_class: PodClass) -> None:
        self._state = state
        self._rows: Mask = np.zeros(state.capacity_rows, np.bool_)
        self._rows[: state.first_new] = self._admitted(state.node_classes, pod_class)
        self._known_rows = state.first_new
        self._known_structure = -1
        self._seen_by: dict[int, bool] = {}
        self._openable: dict[tuple[object, ...], Mask] = {}
        self.sold_to = self._admitted(state.offering_classes, pod_class)  # by offering
        if state.daemons:
            self.sold_to &= state.daemons.allow(pod_class)
        self.lane_sets: list[int] = []  # by lane: the members that admit the class
        for lane in state.offerings.lanes:
            admitted = self.sold_to[lane.members]
            self.lane_sets.append(lane.everything if admitted.all() else as_set(admitted))
        lanes = zip(self.lane_sets, state.offerings.lanes, strict=True)
        # whether either all or no members of each lane admit the class
        self.uniform = all(members in (0, lane.everything) for members, lane in lanes)

    def _admitted(self, node_classes: NodeClasses, pod_class: PodClass) -> Mask:
        if pod_class.unmodelled is not None:
            return np.zeros(len(node_classes.node_traits), np.bool_)
        allowed = node_classes.schedulable(pod_class.tolerations) & node_classes.selected(pod_class)
        if pod_class.claims:
            allowed &= node_classes.allowed_by_volumes(self._state.volume_rules[pod_class.index])
        return allowed

    def rows(self) -> Mask:
        """By row: whether pods may ever run there, as long as a new node keeps its current offering."""
        state = self._state
        if self._known_rows != state.size or (self._known_structure != state.structure and not self.uniform):
            if len(self._rows) < state.capacity_rows:
                more = np.zeros(state.capacity_rows - len(self._rows), np.bool_)
                self._rows = np.concatenate((self._rows, more))
            start = min(self._known_rows, state.size) if self.uniform else state.first_new
            self._rows[start : state.size] = self.sold_to[state.offering[start : state.size]]
            self._known_rows, self._known_structure = state.size, state.structure
        return self._rows[: state.size]

    def openable(self, shape: Shape, watched: Watched) -> Mask:
        """By domain that a spread considers: whether a node could be opened there for a pod of that shape. Read-only."""
        offerings, topology = self._state.offerings, watched.topology
        key = (shape, id(watched), offerings.exhausted, len(topology.values))
        found = self._openable.get(key)
        if found is None:
            domains = [
                topology.enter(value)
                for lane, members in zip(offerings.lanes, self.lane_sets, strict=True)
                if (value := lane.domains.get(topology.key)) is not None
                and watched.offerings[lane.members[0]]
                and offerings.can_open(lane) > 0
                and lane.holding_one(shape, members)
            ]
            found = self._openable[key] = np.zeros(len(topology.values), np.bool_)
            found[domains] = True
        return found

    def are_watched(self, watched: Watched) -> bool:
        """Whether spreads that consider these nodes could ever count a pod of these classes."""
        seen = self._seen_by.get(id(watched))
        if seen is None:
            first_new = self._state.first_new
            at_hand = bool((watched.eligible[:first_new] & self._rows[:first_new]).any())
            seen = self._seen_by[id(watched)] = at_hand or bool((watched.offerings & self.sold_to).any())
        return seen


def what_it_asks_of_nodes(state: PlanState, pod_class: PodClass) -> object:
    """Return a key that is equal for classes with the same static feasibility."""
    if state.daemons or pod_class.claims or pod_class.unmodelled is not None:
        return pod_class.index
    return (tuple(sorted(pod_class.node_selector.items())), pod_class.required, pod_class.tolerations)
