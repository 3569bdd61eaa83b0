"""Which of these nodes can be removed, one after the other? Called by node groups (scale-down) and explain.

Pods of a removed node go first to nodes that are not candidates, then to candidates from the end of the list, which are
judged last. A candidate that received pods and is removed later passes them on: pods without inter-pod rules go to
their final node from the start, others step by step, each step in the plan of the node they leave. Where a node was
kept meanwhile, all pods go step by step, because that node was judged with them in transit and its result must stay
true.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.best_fit import BestFit
from plimsoll.scheduling.explain import no_existing_node, unschedulable_everywhere
from plimsoll.scheduling.gc_pause import gc_paused
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.inter_pod_rules import PLENTY
from plimsoll.scheduling.model import Constraint, Removal, Unschedulable
from plimsoll.scheduling.plan_state import Ints, PlanState
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_requests import PODS, format_amount
from plimsoll.scheduling.pods_to_move import MoveGroup, PodsToMove, slots_that_move
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.volume_limits import driver_of, with_attachments

# Pods that found no place are put first and the node is tried again this often. After that, an exhaustive search
# resolves the order for nodes with few pods; beyond so many pods or steps the node stays, to bound the time.
_TRIES = 3
_TRIES_IN_VAIN = 20  # after so many retries in a row without success, nodes are tried once only
_PODS_TO_SEARCH_FOR = 6
_STEPS_OF_A_SEARCH = 400


def removable(snapshot: Snapshot, node_names: Iterable[str]) -> list[Removal]:
    """For each node in turn: can all of its pods run elsewhere, given that the earlier nodes are removed?

    A place used by one result is not free for the next, and no pod is sent to a node that an earlier result removes. A
    pod sent to a node that a later result removes is also in that later plan. DaemonSet pods, mirror pods and
    terminating pods need no place. A node is judged as if it were gone: no spread counts its domain. The snapshot is
    not changed.
    """
    with gc_paused():
        return _Removals(snapshot, list(dict.fromkeys(node_names))).answer()


class _Removals:
    def __init__(self, snapshot: Snapshot, names: list[str]) -> None:
        self.snapshot = snapshot
        self.names = names
        slots = slots_that_move(snapshot, [snapshot.rows[name] for name in names if name in snapshot.rows])
        indexes: list[int] = np.flatnonzero(np.bincount(snapshot.pod_classes[slots])).tolist()
        shapes = with_attachments(
            snapshot, snapshot.pod_classes[slots].astype(np.intp), snapshot.pod_shapes[slots].astype(np.intp)
        )
        self.state = PlanState(snapshot, [snapshot.classes.classes[index] for index in indexes], moving=True)
        self.placer = Placer(self.state)
        self.row_of = {name: row for row, name in enumerate(self.state.names)}
        self.order = self._filling_order()
        self.free: dict[int, list[int]] = {}  # rows that are being filled, as plain integers
        self._best_fits: dict[int, BestFit | None] = {}  # by class
        self._best_fits_by_mask: dict[bytes, BestFit] = {}
        self.to_move = PodsToMove(snapshot, slots, shapes, self._taken_for(indexes))
        rows = [snapshot.rows[name] for name in self.state.names]
        # resource × row: what must find a place if the node is removed
        self.wanted: Ints = self.to_move.amounts[:, rows]
        # Total free amounts on all nodes that still accept pods: requests beyond that can never be placed.
        self.free_in_all: Ints = np.maximum(self.state.free[: len(self.wanted), : self.state.size], 0).sum(axis=1)
        self.destination = [-1] * len(snapshot.uids)  # slot → row
        self.passed_on: dict[int, dict[int, int]] = {}  # row → received slot → next row
        self.last_left: dict[int, int] = {}  # slot → the last row that passed it on
        self.arrived: dict[int, list[MoveGroup]] = {}  # row → groups it received
        self.kept_nodes = 0
        self.kept_before: dict[int, int] = {}  # row → number of kept nodes when it received its first pods
        # How often a shape fits on each row and in total. Valid until a node is removed.
        self._places: dict[Shape, tuple[Ints, int]] = {}
        self._in_vain = 0
        self._larger: dict[tuple[Shape, Shape], bool] = {}

    def _taken_for(self, class_indexes: list[int]) -> NDArray[np.intp]:
        """By class: its representative among classes that no rule distinguishes."""
        classes = self.snapshot.classes.classes
        taken_for = np.arange(len(classes))
        first: dict[int, int] = {}
        for index in class_indexes:
            if self.is_unnoticed(classes[index]):
                taken_for[index] = first.setdefault(id(self.best_fit_for(classes[index])), index)
        return taken_for

    def _filling_order(self) -> NDArray[np.float64]:
        """By row: nodes that stay come first, the fullest of them first; then candidates, the last of the list first."""
        state = self.state
        slack = state.slack[: state.size]
        order = slack / (float(slack.max(initial=0.0)) + 1.0)
        for position, name in enumerate(reversed(self.names)):
            if name in self.row_of:
                order[self.row_of[name]] = 2.0 + position
        state.slack[: state.size] = order
        state.weights[:] = 0.0  # placements do not change the order
        return order

    def answer(self) -> list[Removal]:
        reasons: dict[str, Unschedulable | None] = {}
        for name in self.names:
            if name in self.row_of:
                reasons[name] = unschedulable = self._remove(name)
                self.kept_nodes += unschedulable is not None
            else:
                reasons[name] = Unschedulable(Constraint.NODE_UNKNOWN, f"there is no node {name}")
        uids, names, destination = self.snapshot.uids, self.state.names, self.destination
        answer = []
        for name, reason in reasons.items():
            plan = None
            if reason is None:
                slots = self.to_move.slots(self.snapshot.rows[name])
                plan = {uids[slot]: names[destination[slot]] for slot in slots}
                passed_on = self.passed_on.get(self.row_of[name], {})
                plan.update((uids[slot], names[row]) for slot, row in passed_on.items())
            answer.append(Removal(name, plan, reason))
        return answer

    def _remove(self, name: str) -> Unschedulable | None:
        row = self.row_of[name]
        wanted = self.wanted[:, row]
        elsewhere = self.free_in_all - np.maximum(self.state.free[: len(wanted), row], 0)
        lacking = np.flatnonzero(wanted > elsewhere)
        if len(lacking):
            return self._too_little(row, int(lacking[0]), elsewhere)
        groups = self.to_move.groups(self.snapshot.rows[name]) + self.arrived.get(row, [])
        if self._places:  # nothing has changed since the counts were computed
            for group in groups:
                if group.shape in self._places and self.lacks_places(row, group, groups):
                    return self.too_few_places(row, group, groups)
        attempt = _Attempt(self, row, groups)
        stuck = attempt.carry_out(quickly=True)
        if stuck is None or (not self.lacks_places(row, stuck, groups) and self._removed_after_all(row, groups, stuck)):
            self._done(row, elsewhere - wanted)
            return None
        return attempt.unschedulable

    def send(self, slot: int, row: int, *, passed_on_by: int | None) -> None:
        """Record where a pod goes: in the plan of the node that passes it on, or of the node that sent it first."""
        if passed_on_by is not None:
            self.last_left[slot] = passed_on_by
        if slot in self.last_left:
            self.passed_on.setdefault(self.last_left[slot], {})[slot] = row
        else:
            self.destination[slot] = row

    def _removed_after_all(self, row: int, groups: list[MoveGroup], stuck: MoveGroup) -> bool:
        """Whether the node can be removed if the pods that found no place come first, or in another order."""
        if self._in_vain < _TRIES_IN_VAIN:
            for _ in range(_TRIES):
                if groups[0] is not stuck:
                    groups = [stuck, *(group for group in groups if group is not stuck)]
                before, again = stuck, _Attempt(self, row, groups).carry_out(quickly=False)
                if again is None:
                    self._in_vain = 0
                    return True
                stuck = again
                self._in_vain += 1
                if stuck is before:
                    break
        few = sum(len(group.slots) for group in groups) <= _PODS_TO_SEARCH_FOR
        return few and _Attempt(self, row, groups).search()

    def lacks_places(self, row: int, group: MoveGroup, groups: list[MoveGroup]) -> bool:
        """Whether all other nodes together have too few places for the group and larger ones, whatever the rules."""
        state, shape = self.state, group.shape
        if shape not in self._places:
            places = np.full(state.size, PLENTY)
            for resource, amount in shape:
                np.minimum(places, state.free[resource, : state.size] // amount, out=places)
            alive = state.alive[: state.size].copy()
            alive[row] = True  # it is False while the node is emptied; its own places are subtracted below
            places = np.where(alive, np.maximum(places, 0), 0)
            self._places[shape] = (places, int(places.sum()))
        places, total = self._places[shape]
        return total - int(places[row]) < self._as_large(group, groups)

    def _as_large(self, group: MoveGroup, groups: list[MoveGroup]) -> int:
        """Return how many pods request at least as much of everything as those of the group."""
        number = 0
        for other in groups:
            pair = (other.shape, group.shape)
            if pair not in self._larger:
                amounts = dict(other.shape)
                self._larger[pair] = all(amounts.get(resource, 0) >= amount for resource, amount in group.shape)
            number += len(other.slots) if self._larger[pair] else 0
        return number

    def too_few_places(self, row: int, group: MoveGroup, groups: list[MoveGroup]) -> Unschedulable:
        places, total = self._places[group.shape]
        pod, number = self.snapshot.first_named(group.slots), self._as_large(group, groups)
        others = f" and {number - 1} more as large or larger" if number > 1 else ""
        words = f"pod {pod}{others} of node {self.state.names[row]} would need {number} places of"
        size = ", ".join(
            f"{amount} volumes of driver {driver}"
            if (driver := driver_of(name))
            else f"{format_amount(name, amount)} {name}"
            for resource, amount in group.shape
            if (name := self.snapshot.classes.resources[resource]) != PODS
        )
        return Unschedulable(
            Constraint.RESOURCES, f"{words} {size}; all other nodes together have {total - int(places[row])}"
        )

    def _done(self, row: int, free_in_all: Ints) -> None:
        self.free_in_all = free_in_all
        self.free.pop(row, None)
        self._places.clear()

    def _too_little(self, row: int, resource: int, elsewhere: Ints) -> Unschedulable:
        name = self.state.names[row]
        what = self.snapshot.classes.resources[resource]
        requested, free = (
            format_amount(what, int(self.wanted[resource, row])),
            format_amount(what, int(elsewhere[resource])),
        )
        slots = self.to_move.slots(self.snapshot.rows[name])
        others = f" and {len(slots) - 1} more pods" if len(slots) > 1 else ""
        pods = (
            f"pod {self.snapshot.first_named(slots)}{others} of node {name}"
            if slots
            else f"the pods moved to node {name}"
        )
        if driver := driver_of(what):
            words = f"{pods} would need {requested} volumes of driver {driver} attached"
            return Unschedulable(Constraint.VOLUME_ATTACH_LIMIT, f"{words}, all other nodes together take {free} more")
        words = f"{pods} would need {requested} of {what}, all other nodes together have {free} free"
        return Unschedulable(Constraint.RESOURCES, words)

    def best_fit_for(self, pod_class: PodClass) -> BestFit | None:
        """Return the fast placement for the class, or None where inter-pod rules or preferences apply."""
        if pod_class.index not in self._best_fits:
            self._best_fits[pod_class.index] = self._make_best_fit(pod_class)
        return self._best_fits[pod_class.index]

    def is_unnoticed(self, pod_class: PodClass) -> bool:
        return self.best_fit_for(pod_class) is not None and not self.state.pod_counters.increments(pod_class)

    def _make_best_fit(self, pod_class: PodClass) -> BestFit | None:
        constraints = self.placer.constraints(pod_class)
        if constraints.rules or constraints.affinity_rule is not None or constraints.has_preferences:
            return None
        mask = constraints.static()
        key = mask.tobytes()
        if key not in self._best_fits_by_mask:
            self._best_fits_by_mask[key] = BestFit(self.state, mask, self.free, self.order)
        return self._best_fits_by_mask[key]


class _Attempt:
    """The attempt to empty one node: applied step by step and undone if it fails."""

    def __init__(self, removals: _Removals, row: int, groups: list[MoveGroup]) -> None:
        self.removals = removals
        self.state = removals.state
        self.row = row
        self.groups = groups
        self.saved: dict[int, list[int]] = {}  # rows filled with plain integers, with their amounts before
        self.plain: list[tuple[MoveGroup, list[tuple[int, int]]]] = []  # rows and how many pods each
        self.ruled: list[tuple[MoveGroup, list[tuple[int, int]]]] = []
        self.unschedulable: Unschedulable | None = None
        self._steps_left = 0

    def carry_out(self, *, quickly: bool) -> MoveGroup | None:
        """Return None on success, else the pods that found no place, with the reason in `unschedulable`.

        With `quickly`, pods without inter-pod rules come last and go to the nodes that were filled last.
        """
        self._leave(-1)
        ways = {id(group): self.removals.best_fit_for(group.pod_class) if quickly else None for group in self.groups}
        stuck = self._place_ruled([group for group in self.groups if ways[id(group)] is None])
        if stuck is None:
            for group in self.groups:
                best_fit = ways[id(group)]
                if best_fit is None:
                    continue
                taken = best_fit.take(group.shape, len(group.slots), self.saved)
                if taken is None:
                    stuck = group
                    break
                self.plain.append((group, taken))
        if stuck is None:
            self._commit()
        else:
            # The arrays include only pods that were placed by rules: without such pods they are unchanged.
            by_counting = not self.ruled and self.removals.lacks_places(self.row, stuck, self.groups)
            self.unschedulable = (
                self.removals.too_few_places(self.row, stuck, self.groups) if by_counting else self._why(stuck)
            )
            self._undo()
        return stuck

    def search(self) -> bool:
        """Try the pods in every order on every feasible node, within a step limit."""
        self._leave(-1)
        pods = [MoveGroup(group.pod_class, group.shape, [slot]) for group in self.groups for slot in group.slots]
        self._steps_left = _STEPS_OF_A_SEARCH
        found = self._search(pods)
        if found:
            self._commit()
        else:
            self._undo()
        return found

    def _search(self, pods: list[MoveGroup]) -> bool:
        if not pods:
            return True
        placer = self.removals.placer
        tried: set[tuple[int, Shape]] = set()
        for position, pod in enumerate(pods):
            if (pod.pod_class.index, pod.shape) in tried:
                continue
            tried.add((pod.pod_class.index, pod.shape))
            for row in placer.constraints(pod.pod_class).mask().nonzero()[0].tolist():
                self._steps_left -= 1
                if self._steps_left < 0:
                    return False
                if placer.put(pod.pod_class, pod.shape, row):
                    self.ruled.append((pod, [(row, 1)]))
                    self.removals.free.pop(row, None)
                    if self._search(pods[:position] + pods[position + 1 :]):
                        return True
                    self.ruled.pop()
                    self.state.place_one(pod.pod_class, pod.shape, row, -1)
        return False

    def _leave(self, sign: int) -> None:
        """Remove the node and its pods from the state (or, with 1, add them back)."""
        state = self.state
        state.alive[self.row] = sign > 0
        state.structure += 1
        if not state.pod_counters:
            return
        if sign > 0:
            state.pod_counters.count_node(self.row, there=True)
        for group in self.groups:
            for counter in state.pod_counters.increments(group.pod_class):
                counter.add_one(self.row, sign * len(group.slots))
        snapshot = self.removals.snapshot
        for slot in snapshot.pods_on[snapshot.rows[state.names[self.row]]]:
            pod_class = snapshot.classes.classes[snapshot.pod_classes[slot]]
            if pod_class.node_bound or pod_class.terminating:
                for counter in state.pod_counters.increments(pod_class):
                    counter.add_one(self.row, sign)
        if sign < 0:
            state.pod_counters.count_node(self.row, there=False)

    def _place_ruled(self, groups: list[MoveGroup]) -> MoveGroup | None:
        """Place groups round by round, because one may depend on another through affinity. Return the first group left
        over.
        """
        waiting = [(group, len(group.slots)) for group in groups]
        while waiting:
            later = []
            for group, count in waiting:
                rows = self.removals.placer.place(group.pod_class, group.shape, count, may_open=False)
                if rows:
                    done = len(group.slots) - count
                    part = MoveGroup(group.pod_class, group.shape, group.slots[done : done + len(rows)])
                    self.ruled.append((part, [(row, 1) for row in rows]))
                    for row in rows:
                        self.removals.free.pop(row, None)
                if len(rows) < count:
                    later.append((group, count - len(rows)))
            if sum(count for _, count in later) == sum(count for _, count in waiting):
                return later[0][0]
            waiting = later
        return None

    def _commit(self) -> None:
        state, removals = self.state, self.removals
        for row, before in self.saved.items():
            after = removals.free[row]
            state.free[:, row] = after
            removals.wanted[:, row] += np.subtract(before, after)[: len(removals.wanted)]
        for group, taken in self.ruled:
            for row, count in taken:
                for resource, amount in group.shape:
                    removals.wanted[resource, row] += amount * count
        arrivals = {slot for group in removals.arrived.get(self.row, ()) for slot in group.slots}
        kept_since = removals.kept_nodes > removals.kept_before.get(self.row, removals.kept_nodes)
        for group, taken in (*self.ruled, *self.plain):
            # A pod without inter-pod rules goes to its final node at once. Others take every step, because the final
            # node may not have been allowed before this node was removed.
            steps = arrivals and (kept_since or not removals.is_unnoticed(group.pod_class))
            position = 0
            for row, count in taken:
                slots = group.slots[position : position + count]
                position += count
                for slot in slots:
                    removals.send(slot, row, passed_on_by=self.row if steps and slot in arrivals else None)
                removals.kept_before.setdefault(row, removals.kept_nodes)
                removals.arrived.setdefault(row, []).append(MoveGroup(group.pod_class, group.shape, slots))
        if state.pod_counters:
            for group, taken in self.plain:
                for counter in state.pod_counters.increments(group.pod_class):
                    for row, count in taken:
                        counter.add_one(row, count)

    def _undo(self) -> None:
        for row, amounts in self.saved.items():
            self.removals.free[row][:] = amounts
        for group, taken in self.ruled:
            for row, count in taken:
                self.state.place_one(group.pod_class, group.shape, row, -count)
                self.removals.free.pop(row, None)
        self._leave(1)

    def _why(self, group: MoveGroup) -> Unschedulable:
        removals = self.removals
        for row in self.saved:  # make the arrays include the pods placed before this one
            self.state.free[:, row] = removals.free[row]
        constraints = removals.placer.constraints(group.pod_class)
        unschedulable = unschedulable_everywhere(constraints) or no_existing_node(constraints, group.shape)
        for row, amounts in self.saved.items():
            self.state.free[:, row] = amounts
        pod = removals.snapshot.first_named(group.slots)
        return Unschedulable(unschedulable.rule, f"pod {pod} fits on no other node: {unschedulable.message}")
