"""One packing attempt: all groups in order, placed one after the other on a `PlanState`. Called by `pack`.

`is_valid` checks the finished plan: pods are placed by the thousand by counting, and a plan with a wrong count must not
be used. All amounts and every rule that a final state can violate are checked once more, class by class, at almost no
cost. Topology spread is not checked, because pods that would otherwise stay unplaced may break the spread of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from plimsoll.scheduling.bulk_placement import Bulk, ClassBatch
from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.explain import no_existing_node, no_new_node, unschedulable_everywhere
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.headroom import Headroom
from plimsoll.scheduling.inter_pod_rules import Exclusion
from plimsoll.scheduling.model import EXISTING, ComingNode, Constraint, Packing, Template, Unschedulable
from plimsoll.scheduling.new_nodes import NewNodes, by_row
from plimsoll.scheduling.placement_order import Sized, by_size, hardest_first, rank
from plimsoll.scheduling.plan_state import PlanState, RowIndex
from plimsoll.scheduling.pod_equivalence import LOWEST_SCALE_UP_PRIORITY, PodClass
from plimsoll.scheduling.pod_groups import Numbers, PodsToPlace, ShapeGroup, ShapeGroups, UnplacedPods, distinct
from plimsoll.scheduling.repair import UNCHANGED, ReplayOptions, repair
from plimsoll.scheduling.scheduler_model import Arrivals
from plimsoll.scheduling.skew_violations import SkewViolations
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import Counts, TopologyCounter


def is_valid(state: PlanState, placed: Iterable[tuple[ClassConstraints, RowIndex]]) -> bool:
    """Whether the final state obeys amounts and rules. `placed` are rows by class; a class may occur several times."""
    if state.overdrawn():
        return False
    parts_of: dict[int, tuple[ClassConstraints, list[RowIndex]]] = {}
    parts_on: dict[int, tuple[ClassConstraints, list[RowIndex]]] = {}  # by static feasibility, which many classes share
    for constraints, rows in placed:
        parts_of.setdefault(constraints.pod_class.index, (constraints, []))[1].append(rows)
        parts_on.setdefault(id(constraints.feasibility), (constraints, []))[1].append(rows)
    return all(constraints.static()[np.concatenate(parts)].all() for constraints, parts in parts_on.values()) and all(
        _keeps_its_rules(constraints, np.concatenate(parts))
        for constraints, parts in parts_of.values()
        if constraints.has_inter_pod_rules
    )


def _keeps_its_rules(constraints: ClassConstraints, rows: RowIndex) -> bool:
    counted = {id(counter) for counter in constraints.increments}
    for rule in constraints.rules:
        if isinstance(rule, Exclusion) and (_there(rule.counter, rows) > (id(rule.counter) in counted)).any():
            return False
    if constraints.affinity_rule is None:
        return True
    return all((_there(counter, rows) > 0).all() for counter in constraints.affinity_rule.counters)


def _there(counter: TopologyCounter, rows: RowIndex) -> Counts:
    """By row: the count in its domain; 0 where a row has no domain."""
    there: Counts = np.append(counter.by_domain(), 0)[counter.topology.domain[rows]]  # NOWHERE is -1, the last element
    return there


MANY_GROUPS = 200


def _contended_claims(
    snapshot: Snapshot, in_play: Iterable[PodClass], pod_counts: Mapping[int, int]
) -> frozenset[tuple[str, str]]:
    """Return ReadWriteOncePod claims (namespace and name) that more than one pod to place uses."""
    users: dict[tuple[str, str], int] = {}
    claims = snapshot.claims or {}
    for pod_class in in_play:
        for name, _ in pod_class.claims:
            key = (pod_class.namespace, name)
            if (claim := claims.get(key)) is not None and claim.one_pod_only:
                users[key] = users.get(key, 0) + pod_counts[pod_class.index]
    return frozenset(key for key, count in users.items() if count > 1)


class Placed(NamedTuple):
    """Pods of a class with their rows, in an order that no rule contradicts."""

    pod_class: PodClass
    pods: list[int]
    rows: list[int]


class Cost(NamedTuple):
    """Number and price of the nodes to add."""

    nodes: int
    price: float


class PackingPlan:
    def __init__(
        self,
        snapshot: Snapshot,
        waiting: PodsToPlace,
        templates: tuple[Template, ...],
        coming: tuple[ComingNode, ...],
        *,
        first_fit: bool = False,
    ) -> None:
        """With `first_fit`, place pods one by one, the largest first, each on the first feasible node."""
        self._coming = coming
        self._first_fit = first_fit
        classes = snapshot.classes
        met, _ = distinct(waiting.class_of)
        # by class: its pod count
        self._pod_counts = dict(zip(met, np.bincount(waiting.class_of)[met].tolist(), strict=True))
        in_play = [classes.classes[index] for index in met]
        self._contended = _contended_claims(snapshot, in_play, self._pod_counts)
        self.state = PlanState(snapshot, in_play, templates, coming, contended=self._contended)
        self.placer = Placer(self.state, first_fit=first_fit, batches=self._pod_counts)
        self._ranks = {pod_class.index: rank(pod_class) for pod_class in in_play}
        weights = self.state.weights.tolist()
        self._shapes = {index: Sized.by(weights, classes.shapes[index]) for index in distinct(waiting.shape_of)[0]}
        self._waiting = waiting
        order = by_size if first_fit else hardest_first
        self.groups = ShapeGroups(classes, waiting, order(waiting, in_play, self._shapes))
        self.placed: list[Placed] = []
        self.sizes: dict[int, int] = {}  # row of a new node → offering, where that is larger than necessary
        self.binds = True  # whether the model of kube-scheduler finds a place for (nearly) every pod
        self.left = UnplacedPods(self.groups)

    def run(self) -> None:
        openers = sum(len(groups) for pod_class, groups in self.groups.runs() if self._ranks[pod_class.index] == 0)
        self._place_apart()
        self._place_each(relax=False, until=openers)
        self._place_in_bulk()
        self._place_what_is_left()
        for _ in range(3):
            if not self.relied_on_fewer_rows() and not self.counts_nodes_not_made():
                break
            self.replay()
        if self.state.daemons and self.counts_nodes_not_made():
            self.replay(ReplayOptions(may_open=False))
        repair(self)

    def relied_on_fewer_rows(self) -> bool:
        return self.state.size > self.state.relied_on_rows

    def counts_nodes_not_made(self) -> bool:
        """Whether there are empty new nodes beside pods that are spread or unplaced.

        An empty node is not added, but it was counted as an empty domain, and its DaemonSet pods as neighbours.
        """
        state = self.state
        if state.in_use().all():
            return False
        return bool(self.unplaced) or any(spread.kept.total for spread in state.pod_counters.kept_spreads)

    @property
    def skew_violations(self) -> SkewViolations:
        return SkewViolations(self.placer, self.placed, self._ranks, self.groups)

    def _place_what_is_left(self) -> None:
        """Repeat until nothing more is placed: pods of one group may enable pods of another."""
        while self._place_each(relax=False):
            pass
        while self._place_each(relax=True):
            pass

    def _place_apart(self) -> None:
        """Open all new nodes at once for the first classes, whose pods need one host each, where no other node is
        feasible.
        """
        for pod_class, run in self.groups.runs():
            if self._ranks[pod_class.index]:
                return
            if pod_class.gates:
                continue
            waiting = [(self.groups.shape_at(index), len(self.left[index])) for index in run]
            for index, rows in zip(
                run, self.placer.place_apart(self.placer.constraints(pod_class), waiting), strict=False
            ):
                if rows:
                    self.placed.append(Placed(pod_class, self.left[index][: len(rows)], rows))
                    self.left[index] = self.left[index][len(rows) :]

    def _place_each(self, *, relax: bool, until: int | None = None) -> bool:
        """Run one round over the groups. Return False if nothing was placed or nothing is left."""
        progress = False
        for index in self.left.groups(until):
            group, waiting = self.groups[index], self.left[index]
            if group.pod_class.gates:
                continue
            may_open = group.pod_class.triggers_scale_up
            rows = self.placer.place(group.pod_class, group.shape, len(waiting), may_open=may_open, relax=relax)
            if rows:
                progress = True
                self.placed.append(Placed(group.pod_class, waiting[: len(rows)], rows))
                self.left[index] = waiting[len(rows) :]
        return progress and bool(self.left.pods)

    def _place_in_bulk(self) -> None:
        """Place many groups of few pods each at once. A plan with few, large groups gains nothing from this."""
        batches: dict[PodClass, ClassBatch] = {}
        for pod_class, run in self.groups.runs():
            pods = self.left.of(run)
            if not pods or pod_class.gates:
                continue
            batch = batches.get(pod_class)
            if batch is None:
                batch = batches[pod_class] = ClassBatch(self.placer.constraints(pod_class))
            batch.runs.append(run)
            batch.pods += pods
        for batch in batches.values():
            batch.shapes = self._waiting.shape_of[batch.pods]
        waiting = list(batches.values())
        priorities = {batch.constraints.pod_class.priority for batch in waiting}
        if len(priorities) != 1 or priorities.pop() < LOWEST_SCALE_UP_PRIORITY:
            return
        while sum(len(run) for batch in waiting for run in batch.runs) >= MANY_GROUPS:
            bulk = Bulk(self.placer, waiting, self._shapes)
            if not bulk.lot:
                return
            bulk.place()
            for batch in bulk.lot:
                self._note_placed(batch)
            done = {id(batch) for batch in bulk.lot}
            waiting = [batch for batch in waiting if id(batch) not in done]

    def _note_placed(self, batch: ClassBatch) -> None:
        pods, rows = batch.pods, batch.rows
        for run in batch.runs:
            self.left.clear(run)
        if -1 in rows:
            for pod, row in zip(pods, rows, strict=True):
                if row < 0:
                    group = self.groups.of[pod]
                    self.left[group] = [*self.left[group], pod]
            pods = [pod for pod, row in zip(pods, rows, strict=True) if row >= 0]
            rows = [row for row in rows if row >= 0]
        if pods:
            self.placed.append(Placed(batch.constraints.pod_class, pods, rows))

    def replay(self, options: ReplayOptions = UNCHANGED) -> None:
        """Place everything again with all nodes of the plan present from the start, each pod on its previous node if
        allowed.

        A node opened late is an empty domain, which lowers the limit of pods spread over hosts.
        """
        old, placed = self.state, self.placed
        self.state = PlanState(
            old.snapshot, old.in_play, old.offerings.templates, self._coming, contended=self._contended
        )
        self.placer = Placer(self.state, first_fit=self._first_fit, batches=self._pod_counts)
        self.placer.may_open = options.may_open
        self.placed = []
        row_of = {row: row for row in range(old.first_new)}
        for row in old.rows_to_make():
            row_of[row] = self.state.open_one(*old.sets[int(old.set_of[row])], int(old.offering[row]))
        to = options.to
        goal = to.row
        if to.lane >= 0:
            goal = old.size
            row_of[goal] = self.state.open_one(to.lane, to.members, to.offering)
        all_placed = [(pod, row) for _, pods, rows in placed for pod, row in zip(pods, rows, strict=True)]
        moving = [(pod, row) for pod, row in all_placed if pod in options.but]
        waiting = [(pod, row_of[row]) for pod, row in all_placed if pod not in options.but]
        if options.affinity_first:
            waiting.sort(key=lambda one: not self.groups[self.groups.of[one[0]]].pod_class.affinity)
        waiting = self._put_back(waiting)
        if options.others_stay:
            waiting = self._put_back(waiting, heedless=True)
        if goal in row_of:
            moving = self._put_back([(pod, row_of[goal]) for pod, _ in moving], heedless=True)
        for pod, _ in (*waiting, *moving):
            index = self.groups.of[pod]
            self.left[index] = [*self.left[index], pod]
        if options.last:
            withheld = {index: self.left[index] for index in options.last}
            for index in withheld:
                self.left[index] = []
            self._place_what_is_left()
            for index, pods in withheld.items():
                self.left[index] = pods
        self.placer.expects_empty_hosts = True
        self._place_what_is_left()
        self.placer.expects_empty_hosts = False
        self._place_what_is_left()

    def _put_back(self, waiting: list[tuple[int, int]], *, heedless: bool = False) -> list[tuple[int, int]]:
        """Put pods on their rows, repeatedly for those that depend on others; return those that are not allowed there."""
        progress = True
        while waiting and progress:
            later = []
            for pod, row in waiting:
                group = self.groups[self.groups.of[pod]]
                if self.placer.put(group.pod_class, group.shape, row, heedless=heedless):
                    self.placed.append(Placed(group.pod_class, [pod], [row]))
                else:
                    later.append((pod, row))
            progress, waiting = len(later) < len(waiting), later
        return waiting

    def add_headroom(self, *, at_most: float | None = None) -> None:
        """Enlarge nodes until kube-scheduler finds a place for every pod, within a price limit."""
        state = self.state
        rows = state.rows_to_make()
        if not rows:
            return
        headroom = Headroom(state, rows, at_most)
        if not headroom.ways:
            return
        pods, on = self._all_placed
        sampled = np.zeros(state.size, np.bool_)
        sampled[headroom.sampled_rows] = True
        here = sampled[on]
        pods, on = pods[here], on[here]
        class_of, shape_of = self._waiting
        class_indexes, constraints_of = distinct(class_of[pods])
        shape_indexes, shape_of = distinct(shape_of[pods])
        all_constraints = [self.placer.constraints(state.classes.classes[index]) for index in class_indexes]
        shapes = [state.classes.shapes[index] for index in shape_indexes]
        arrivals = Arrivals(pods, on, all_constraints, constraints_of, shapes, shape_of)
        self.sizes = headroom.choose(arrivals)
        self.binds = headroom.binds

    @cached_property
    def _all_placed(self) -> tuple[Numbers, Numbers]:
        """All pods and their rows, in order of placement. Only for a finished plan."""
        pods = np.array(list(chain.from_iterable([placed.pods for placed in self.placed])), np.intp)
        return pods, np.array(list(chain.from_iterable([placed.rows for placed in self.placed])), np.intp)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unplaced(self) -> int:
        return self.left.pods

    @property
    def valid(self) -> bool:
        """Whether the final state obeys the rules. False means a bug."""
        ends = np.cumsum([len(rows) for *_, rows in self.placed], dtype=np.intp).tolist()
        parts = map(slice, (0, *ends), ends)
        _, rows = self._all_placed
        return is_valid(
            self.state,
            [
                (self.placer.constraints(one.pod_class), rows[part])
                for one, part in zip(self.placed, parts, strict=True)
            ],
        )

    @property
    def cost(self) -> Cost:
        state = self.state
        chosen = [*self.sizes.values()] or state.cheapest_offerings(state.rows_to_make())
        return Cost(len(chosen), sum(state.offerings.prices[offering] for offering in chosen))

    def result(self, uids: Sequence[str]) -> Packing:
        """Convert the plan to a `Packing`. `uids` are the UIDs of all pods by index."""
        state = self.state
        pods, rows = self._all_placed
        placed_uids = [*map(uids.__getitem__, pods.tolist())]
        placements = dict(zip(placed_uids, map(state.names.__getitem__, rows.tolist()), strict=True))
        notes: dict[str, str] = {}
        for one in self.placed:
            unknown = state.volume_rules[one.pod_class.index].unknown
            if unknown:
                notes.update((uids[pod], unknown) for pod in one.pods)
        unplaced: dict[str, dict[str, Unschedulable]] = {}
        for index in self.left.groups():
            why = self._why(self.groups[index])
            unplaced.update((uids[pod], why) for pod in self.left[index])
        to_make, on_each = by_row(placed_uids, rows, state.first_new)
        return Packing(placements, NewNodes(state, self.sizes).make(to_make, on_each), unplaced, notes)

    def _why(self, group: ShapeGroup) -> dict[str, Unschedulable]:
        me, templates = group.pod_class, self.state.offerings.templates
        keys = [EXISTING, *(template.name for template in templates)]
        constraints = self.placer.constraints(me)
        hopeless = unschedulable_everywhere(constraints)
        if hopeless is not None:
            return dict.fromkeys(keys, hopeless)
        why = {EXISTING: no_existing_node(constraints, group.shape)}
        for index, template in enumerate(templates):
            if not me.triggers_scale_up:
                words = (
                    f"priority {me.priority} is below {LOWEST_SCALE_UP_PRIORITY}: the pod only uses what is left over"
                )
                why[template.name] = Unschedulable(Constraint.PRIORITY, words)
            else:
                why[template.name] = no_new_node(constraints, group.shape, index)
        return why
