"""A last look at a plan: does the state that it ends in keep the rules?

Pods are placed by the thousand on the word of counters. Should a count ever be wrong, the plan must not leave the house: all amounts
and every rule that a finished state can be asked about are looked at once more, class by class, which costs next to nothing. Spreads
are not among them: pods that would otherwise stay unplaced may break those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from plimsoll.scheduling.bulk_placement import Bulk, Crowd
from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.explain import refused_by_existing, refused_by_template, refused_everywhere
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.headroom import Headroom
from plimsoll.scheduling.inter_pod_rules import NoneThere
from plimsoll.scheduling.model import EXISTING, ComingNode, Packing, Refusal, Rule, Template
from plimsoll.scheduling.new_nodes import NewNodes, by_row
from plimsoll.scheduling.placement_order import Sized, by_size, hardest_first, rank
from plimsoll.scheduling.plan_state import Board, RowIndex
from plimsoll.scheduling.pod_equivalence import LOWEST_PRIORITY_WORTH_A_NODE, PodClass
from plimsoll.scheduling.pod_groups import Group, Groups, Left, Numbers, Waiting, distinct
from plimsoll.scheduling.repair import AS_IT_WAS, Again, mend
from plimsoll.scheduling.scheduler_model import Arrivals
from plimsoll.scheduling.skew_violations import Crowding
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import Counter, Counts


def is_sound(board: Board, placed: Iterable[tuple[View, RowIndex]]) -> bool:
    """`placed` are the rows of the pods of each view; a view may come up several times."""
    if board.overdrawn():
        return False
    parts_of: dict[int, tuple[View, list[RowIndex]]] = {}
    parts_on: dict[int, tuple[View, list[RowIndex]]] = {}  # by grounds, which many classes share
    for view, rows in placed:
        parts_of.setdefault(view.pod_class.index, (view, []))[1].append(rows)
        parts_on.setdefault(id(view.grounds), (view, []))[1].append(rows)
    return all(view.static()[np.concatenate(parts)].all() for view, parts in parts_on.values()) and all(
        _keeps_its_rules(view, np.concatenate(parts)) for view, parts in parts_of.values() if view.minds_neighbours
    )


def _keeps_its_rules(view: View, rows: RowIndex) -> bool:
    counted = {id(counter) for counter in view.bumps}
    for rule in view.rules:
        if isinstance(rule, NoneThere) and (_there(rule.counter, rows) > (id(rule.counter) in counted)).any():
            return False
    if view.together is None:
        return True
    return all((_there(counter, rows) > 0).all() for counter in view.together.counters)


def _there(counter: Counter, rows: RowIndex) -> Counts:
    """How many are in the domain of each row; none where a row has no domain."""
    there: Counts = np.append(counter.by_domain(), 0)[counter.topology.domain[rows]]  # NOWHERE is -1: the last
    return there


# One attempt at a packing: all groups in an order, placed one after the other on a board.

MANY_GROUPS = 200


class Placed(NamedTuple):
    """Pods of a class that have their places, in an order that every rule agrees with."""

    pod_class: PodClass
    pods: list[int]
    rows: list[int]


class Cost(NamedTuple):
    """Of the nodes to make."""

    nodes: int
    price: float


class Plan:
    def __init__(
        self,
        snapshot: Snapshot,
        waiting: Waiting,
        templates: tuple[Template, ...],
        coming: tuple[ComingNode, ...],
        *,
        first_fit: bool = False,
    ) -> None:
        """With `first_fit`, one pod after the other, the largest first, each on the first node that will do."""
        self._coming = coming
        self._first_fit = first_fit
        classes = snapshot.classes
        met, _ = distinct(waiting.class_of)
        self._crowds = dict(zip(met, np.bincount(waiting.class_of)[met].tolist(), strict=True))  # by class: its pods
        in_play = [classes.classes[index] for index in met]
        self.board = Board(snapshot, in_play, templates, coming)
        self.placer = Placer(self.board, first_fit=first_fit, crowds=self._crowds)
        self._ranks = {pod_class.index: rank(pod_class) for pod_class in in_play}
        weights = self.board.weights.tolist()
        self._shapes = {index: Sized.by(weights, classes.shapes[index]) for index in distinct(waiting.shape_of)[0]}
        self._waiting = waiting
        order = by_size if first_fit else hardest_first
        self.groups = Groups(classes, waiting, order(waiting, in_play, self._shapes))
        self.placed: list[Placed] = []
        self.sizes: dict[int, int] = {}  # row of a new node → offering, where that is to be larger than needed
        self.binds = True  # whether kube-scheduler would find a place for (nearly) every pod, as far as was looked at
        self.left = Left(self.groups)

    def run(self) -> None:
        openers = sum(len(groups) for pod_class, groups in self.groups.runs() if self._ranks[pod_class.index] == 0)
        self._place_apart()
        self._place_each(give_way=False, until=openers)
        self._place_in_bulk()
        self._place_what_is_left()
        for _ in range(3):
            if not self.relied_on_fewer_rows() and not self.counts_nodes_not_made():
                break
            self.replay()
        if self.board.daemons and self.counts_nodes_not_made():
            self.replay(Again(may_open=False))
        mend(self)

    def relied_on_fewer_rows(self) -> bool:
        return self.board.size > self.board.relied_on_rows

    def counts_nodes_not_made(self) -> bool:
        """Whether there are new nodes that hold nothing, beside pods that are spread or were left out. Such a node is not made, but it
        was counted as an empty domain, and its daemons as neighbours.
        """
        board = self.board
        if board.in_use().all():
            return False
        return bool(self.unplaced) or any(spread.kept.total for spread in board.census.kept_spreads)

    @property
    def crowding(self) -> Crowding:
        return Crowding(self.placer, self.placed, self._ranks, self.groups)

    def _place_what_is_left(self) -> None:
        """Again and again until nothing more is placed: what one group places may be what another waits for."""
        while self._place_each(give_way=False):
            pass
        while self._place_each(give_way=True):
            pass

    def _place_apart(self) -> None:
        """New nodes at once for the classes that come first and whose pods need a host each, where there is no other node for them."""
        for pod_class, run in self.groups.runs():
            if self._ranks[pod_class.index]:
                return
            if pod_class.gates:
                continue
            waiting = [(self.groups.shape_at(index), len(self.left[index])) for index in run]
            for index, rows in zip(run, self.placer.place_apart(self.placer.view(pod_class), waiting), strict=False):
                if rows:
                    self.placed.append(Placed(pod_class, self.left[index][: len(rows)], rows))
                    self.left[index] = self.left[index][len(rows) :]

    def _place_each(self, *, give_way: bool, until: int | None = None) -> bool:
        """One round over the groups; False if nothing was placed or nothing is left."""
        progress = False
        for index in self.left.groups(until):
            group, waiting = self.groups[index], self.left[index]
            if group.pod_class.gates:
                continue
            may_open = group.pod_class.worth_a_node
            rows = self.placer.place(group.pod_class, group.shape, len(waiting), may_open=may_open, give_way=give_way)
            if rows:
                progress = True
                self.placed.append(Placed(group.pod_class, waiting[: len(rows)], rows))
                self.left[index] = waiting[len(rows) :]
        return progress and bool(self.left.pods)

    def _place_in_bulk(self) -> None:
        """The quick way for many groups of few pods each; a plan with few, large groups is as quick without."""
        crowds: dict[PodClass, Crowd] = {}
        for pod_class, run in self.groups.runs():
            pods = self.left.of(run)
            if not pods or pod_class.gates:
                continue
            crowd = crowds.get(pod_class)
            if crowd is None:
                crowd = crowds[pod_class] = Crowd(self.placer.view(pod_class))
            crowd.runs.append(run)
            crowd.pods += pods
        for crowd in crowds.values():
            crowd.shapes = self._waiting.shape_of[crowd.pods]
        waiting = list(crowds.values())
        priorities = {crowd.view.pod_class.priority for crowd in waiting}
        if len(priorities) != 1 or priorities.pop() < LOWEST_PRIORITY_WORTH_A_NODE:
            return
        while sum(len(run) for crowd in waiting for run in crowd.runs) >= MANY_GROUPS:
            bulk = Bulk(self.placer, waiting, self._shapes)
            if not bulk.lot:
                return
            bulk.place()
            for crowd in bulk.lot:
                self._note_placed(crowd)
            done = {id(crowd) for crowd in bulk.lot}
            waiting = [crowd for crowd in waiting if id(crowd) not in done]

    def _note_placed(self, crowd: Crowd) -> None:
        pods, rows = crowd.pods, crowd.rows
        for run in crowd.runs:
            self.left.clear(run)
        if -1 in rows:
            for pod, row in zip(pods, rows, strict=True):
                if row < 0:
                    group = self.groups.of[pod]
                    self.left[group] = [*self.left[group], pod]
            pods = [pod for pod, row in zip(pods, rows, strict=True) if row >= 0]
            rows = [row for row in rows if row >= 0]
        if pods:
            self.placed.append(Placed(crowd.view.pod_class, pods, rows))

    def replay(self, again: Again = AS_IT_WAS) -> None:
        """Place everything once more, with all nodes of the plan there from the start, each pod where it was if it may.

        A node that was opened late is an empty domain, below which pods spread over hosts may stand too high.
        """
        old, placed = self.board, self.placed
        self.board = Board(old.snapshot, old.in_play, old.offerings.templates, self._coming)
        self.placer = Placer(self.board, first_fit=self._first_fit, crowds=self._crowds)
        self.placer.may_open = again.may_open
        self.placed = []
        row_of = {row: row for row in range(old.first_new)}
        for row in old.rows_to_make():
            row_of[row] = self.board.open_one(*old.sets[int(old.set_of[row])], int(old.offering[row]))
        to = again.to
        goal = to.row
        if to.lane >= 0:
            goal = old.size
            row_of[goal] = self.board.open_one(to.lane, to.members, to.offering)
        all_placed = [(pod, row) for _, pods, rows in placed for pod, row in zip(pods, rows, strict=True)]
        moving = [(pod, row) for pod, row in all_placed if pod in again.but]
        waiting = [(pod, row_of[row]) for pod, row in all_placed if pod not in again.but]
        if again.company_first:
            waiting.sort(key=lambda one: not self.groups[self.groups.of[one[0]]].pod_class.affinity)
        waiting = self._put_back(waiting)
        if again.others_stay:
            waiting = self._put_back(waiting, heedless=True)
        if goal in row_of:
            moving = self._put_back([(pod, row_of[goal]) for pod, _ in moving], heedless=True)
        for pod, _ in (*waiting, *moving):
            index = self.groups.of[pod]
            self.left[index] = [*self.left[index], pod]
        if again.last:
            withheld = {index: self.left[index] for index in again.last}
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
        """Put pods on their rows, those that have to wait for others after them; returns whoever may not be there."""
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
        """Make nodes so much larger that kube-scheduler finds a place for every pod, for a price that is given or usual."""
        board = self.board
        rows = board.rows_to_make()
        if not rows:
            return
        headroom = Headroom(board, rows, at_most)
        if not headroom.ways:
            return
        pods, on = self._all_placed
        sampled = np.zeros(board.size, np.bool_)
        sampled[headroom.sampled_rows] = True
        here = sampled[on]
        pods, on = pods[here], on[here]
        class_of, shape_of = self._waiting
        class_indexes, view_of = distinct(class_of[pods])
        shape_indexes, shape_of = distinct(shape_of[pods])
        views = [self.placer.view(board.classes.classes[index]) for index in class_indexes]
        shapes = [board.classes.shapes[index] for index in shape_indexes]
        arrivals = Arrivals(pods, on, views, view_of, shapes, shape_of)
        self.sizes = headroom.choose(arrivals)
        self.binds = headroom.binds

    @cached_property
    def _all_placed(self) -> tuple[Numbers, Numbers]:
        """Pods and their rows, in order; for when all is done."""
        pods = np.array(list(chain.from_iterable([placed.pods for placed in self.placed])), np.intp)
        return pods, np.array(list(chain.from_iterable([placed.rows for placed in self.placed])), np.intp)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unplaced(self) -> int:
        return self.left.pods

    @property
    def sound(self) -> bool:
        """Whether the state that the plan ends in keeps the rules; it should, always."""
        ends = np.cumsum([len(rows) for *_, rows in self.placed], dtype=np.intp).tolist()
        parts = map(slice, (0, *ends), ends)
        _, rows = self._all_placed
        return is_sound(
            self.board,
            [(self.placer.view(one.pod_class), rows[part]) for one, part in zip(self.placed, parts, strict=True)],
        )

    @property
    def cost(self) -> Cost:
        board = self.board
        chosen = [*self.sizes.values()] or board.cheapest_offerings(board.rows_to_make())
        return Cost(len(chosen), sum(board.offerings.prices[offering] for offering in chosen))

    def result(self, uids: Sequence[str]) -> Packing:
        """The plan in names; `uids` are those of all pods, by number."""
        board = self.board
        pods, rows = self._all_placed
        placed_uids = [*map(uids.__getitem__, pods.tolist())]
        placements = dict(zip(placed_uids, map(board.names.__getitem__, rows.tolist()), strict=True))
        notes: dict[str, str] = {}
        for one in self.placed:
            unknown = board.volume_rules[one.pod_class.index].unknown
            if unknown:
                notes.update((uids[pod], unknown) for pod in one.pods)
        unplaced: dict[str, dict[str, Refusal]] = {}
        for index in self.left.groups():
            why = self._why(self.groups[index])
            unplaced.update((uids[pod], why) for pod in self.left[index])
        to_make, on_each = by_row(placed_uids, rows, board.first_new)
        return Packing(placements, NewNodes(board, self.sizes).make(to_make, on_each), unplaced, notes)

    def _why(self, group: Group) -> dict[str, Refusal]:
        me, templates = group.pod_class, self.board.offerings.templates
        keys = [EXISTING, *(template.name for template in templates)]
        view = self.placer.view(me)
        hopeless = refused_everywhere(view)
        if hopeless is not None:
            return dict.fromkeys(keys, hopeless)
        why = {EXISTING: refused_by_existing(view, group.shape)}
        for index, template in enumerate(templates):
            if not me.worth_a_node:
                words = f"priority {me.priority} is below {LOWEST_PRIORITY_WORTH_A_NODE}: the pod only uses what is left over"
                why[template.name] = Refusal(Rule.PRIORITY, words)
            else:
                why[template.name] = refused_by_template(view, group.shape, index)
        return why
