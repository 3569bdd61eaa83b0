"""One attempt at a packing: all groups in an order, placed one after the other on a board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from plimsoll.scheduling.audit import is_sound
from plimsoll.scheduling.binding import Arrivals
from plimsoll.scheduling.board import Board, Opening
from plimsoll.scheduling.bulk import Bulk, Crowd
from plimsoll.scheduling.census import KeptSpread
from plimsoll.scheduling.classes import LOWEST_PRIORITY_WORTH_A_NODE, PodClass
from plimsoll.scheduling.groups import Group, Groups, Waiting, distinct
from plimsoll.scheduling.headroom import Headroom
from plimsoll.scheduling.model import EXISTING, ComingNode, Packing, Refusal, Rule, Template
from plimsoll.scheduling.new_nodes import NewNodes, by_row
from plimsoll.scheduling.ordering import Sized, by_size, hardest_first, rank
from plimsoll.scheduling.placing import Placer
from plimsoll.scheduling.reasons import refused_by_existing, refused_by_template, refused_everywhere
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.topology import Counter as PodCounter
from plimsoll.scheduling.topology import Counts, Topology

MANY_GROUPS = 200
_MOVED_ALONE = 16  # pods at most; each costs as much as all placements before it

Pods: TypeAlias = frozenset[int]  # their numbers


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
        self._crowds = Counter(waiting.class_of.tolist())  # by class: its pods
        in_play = [classes.classes[index] for index in self._crowds]
        self.board = Board(snapshot, in_play, templates, coming)
        self.placer = Placer(self.board, first_fit=first_fit, crowds=self._crowds)
        self._ranks = {pod_class.index: rank(pod_class) for pod_class in in_play}
        weights = self.board.weights.tolist()
        self._shapes = {  # by index, with their size: all amounts weighed together
            index: Sized(shape, sum([weights[resource] * amount for resource, amount in shape]))
            for index, shape in ((index, classes.shapes[index]) for index in dict.fromkeys(waiting.shape_of.tolist()))
        }
        self._waiting = waiting
        order = by_size if first_fit else hardest_first
        self.groups = Groups(classes, waiting, order(waiting, in_play, self._shapes))
        self.placed: list[Placed] = []
        self.sizes: dict[int, int] = {}  # row of a new node → offering, where that is to be larger than needed
        self.binds = True  # whether kube-scheduler would find a place for (nearly) every pod, as far as was looked at
        self.left = [*self.groups.pods]  # by group: its unplaced pods

    def run(self) -> None:
        openers = sum(len(groups) for pod_class, groups in self.groups.runs() if self._ranks[pod_class.index] == 0)
        self._place_apart()
        self._place_each(give_way=False, until=openers)
        self._place_in_bulk()
        self._place_what_is_left()
        for _ in range(3):
            if not self._relied_on_fewer_rows():
                break
            self._replay()
        self._mend()

    def _relied_on_fewer_rows(self) -> bool:
        return self.board.size > self.board.relied_on_rows

    def _mend(self) -> None:
        """Where late pods broke the spread of earlier ones, look again: let as many move as are too many where they are; then
        all late ones; then the early ones; and if all that is in vain, one after the other.
        """
        nobody: Callable[[], Pods] = frozenset
        for who_moves in (self._too_many, self._too_many, nobody, self._disturbed, self._too_many, self._too_many):
            if not self._disturbed():
                return
            self._try_moving(who_moves())
        for pod in self._crowding()[:_MOVED_ALONE]:
            if not self._disturbed():
                return
            self._try_moving(frozenset((pod,)))

    def _try_moving(self, pods: Pods) -> None:
        """Place everything once more but these pods, which find their places afterwards; keep that if it is better."""
        before = (self.board, self.placer, self.placed, [*self.left])
        unplaced, disturbed = self.unplaced, len(self._disturbed())
        self._replay(pods)
        if self._relied_on_fewer_rows():
            self._replay()
        worse = (self.unplaced, len(self._disturbed())) >= (unplaced, disturbed)
        if worse or self._relied_on_fewer_rows():
            self.board, self.placer, self.placed, self.left = before

    def _broken_spreads(self) -> Iterator[tuple[KeptSpread, Counts]]:
        """Spreads that pods of the plan rely on and that do not hold in the end, and by domain how many are too many there."""
        for spread in self.board.census.kept_spreads:
            if spread.kept.total:
                most = spread.max_skew + spread.counter.minimum(spread.min_domains)
                over = np.where(spread.kept.by_domain() > 0, spread.counter.by_domain() - most, 0)
                if (over > 0).any():
                    yield spread, over

    def _disturbed(self) -> Pods:
        """The pods of the plan whose own spread does not hold in the end."""
        bad = {id(spread.kept): over > 0 for spread, over in self._broken_spreads()}
        found: set[int] = set()
        for pod_class, pods, rows in self.placed if bad else ():
            for kept in self.board.census.bumps(pod_class):
                if id(kept) in bad:
                    where = bad[id(kept)][kept.topology.domain[rows]]
                    found.update(pod for pod, so in zip(pods, where, strict=True) if so)
        return frozenset(found)

    def _too_many(self) -> Pods:
        """As many pods as are too many for a broken spread, those with the fewest rules of their own first."""
        found: set[int] = set()
        for spread, over in self._broken_spreads():
            for pod, domain in self._counted_by(spread.counter):
                if over[domain] > 0 and pod not in found:
                    found.add(pod)
                    over[domain] -= 1
        return frozenset(found)

    def _crowding(self) -> list[int]:
        """All pods of which there are too many for a broken spread, those with the fewest rules of their own first."""
        pods = [
            pod
            for spread, over in self._broken_spreads()
            for pod, domain in self._counted_by(spread.counter)
            if over[domain] > 0
        ]
        return list(dict.fromkeys(pods))

    def _counted_by(self, counter: PodCounter) -> Iterator[tuple[int, int]]:
        """The pods of the plan that a counter counts and that could be in another domain than theirs, with that domain."""
        by_rank = sorted(self.placed, key=lambda placed: -self._ranks[placed.pod_class.index])
        for pod_class, pods, rows in by_rank:
            if not any(bumped is counter for bumped in self.board.census.bumps(pod_class)):
                continue
            if not counter.topology.of_hosts and not self._could_be_elsewhere(pod_class, counter.topology):
                continue
            for pod, domain in zip(pods, counter.topology.domain[rows].tolist(), strict=True):
                if domain >= 0:
                    yield pod, domain

    def _could_be_elsewhere(self, pod_class: PodClass, topology: Topology) -> bool:
        return len(self.placer.reached(self.placer.view(pod_class), topology)) > 1

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
        for index, waiting in enumerate(self.left[:until]):
            if not waiting:
                continue
            group = self.groups[index]
            if group.pod_class.gates:
                continue
            may_open = group.pod_class.worth_a_node
            rows = self.placer.place(group.pod_class, group.shape, len(waiting), may_open=may_open, give_way=give_way)
            if rows:
                progress = True
                self.placed.append(Placed(group.pod_class, waiting[: len(rows)], rows))
                self.left[index] = waiting[len(rows) :]
        return progress and any(self.left)

    def _place_in_bulk(self) -> None:
        """The quick way for many groups of few pods each; a plan with few, large groups is as quick without."""
        crowds: dict[PodClass, Crowd] = {}
        for pod_class, run in self.groups.runs():
            groups = [index for index in run if self.left[index]]
            if not groups or pod_class.gates:
                continue
            crowd = crowds.get(pod_class)
            if crowd is None:
                crowd = crowds[pod_class] = Crowd(self.placer.view(pod_class))
            crowd.groups += groups
        for crowd in crowds.values():
            crowd.pods = list(chain.from_iterable([self.left[index] for index in crowd.groups]))
            crowd.shapes = self._waiting.shape_of[crowd.pods]
        waiting = list(crowds.values())
        priorities = {crowd.view.pod_class.priority for crowd in waiting}
        if len(priorities) != 1 or priorities.pop() < LOWEST_PRIORITY_WORTH_A_NODE:
            return
        while sum(len(crowd.groups) for crowd in waiting) >= MANY_GROUPS:
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
        for index in crowd.groups:
            self.left[index] = []
        if -1 in rows:
            for pod, row in zip(pods, rows, strict=True):
                if row < 0:
                    self.left[self.groups.of[pod]].append(pod)
            pods = [pod for pod, row in zip(pods, rows, strict=True) if row >= 0]
            rows = [row for row in rows if row >= 0]
        if pods:
            self.placed.append(Placed(crowd.view.pod_class, pods, rows))

    def _replay(self, but: Pods = frozenset()) -> None:
        """Place everything once more, with all nodes of the plan there from the start, each pod where it was if it may.

        A node that was opened late is an empty domain, below which pods spread over hosts may stand too high. The pods named in
        `but` are not put where they were: they come last.
        """
        old, placed = self.board, self.placed
        self.board = Board(old.snapshot, old.in_play, old.offerings.templates, self._coming)
        self.placer = Placer(self.board, first_fit=self._first_fit, crowds=self._crowds)
        self.placed = []
        row_of = {row: row for row in range(old.first_new)}
        for row in old.rows_to_make():
            lane, members = old.sets[int(old.set_of[row])]
            self.board.offerings.opened(self.board.offerings.lanes[lane], 1)
            row_of[row] = int(self.board.open([Opening(lane, members, int(old.offering[row]), 1)])[0])
        all_placed = [(pod, row) for _, pods, rows in placed for pod, row in zip(pods, rows, strict=True)]
        moving = [(pod, row) for pod, row in all_placed if pod in but]
        waiting = [(pod, row_of[row]) for pod, row in all_placed if pod not in but]
        progress = True
        while waiting and progress:
            later = []
            for pod, row in waiting:
                group = self.groups[self.groups.of[pod]]
                if self.placer.put(group.pod_class, group.shape, row):
                    self.placed.append(Placed(group.pod_class, [pod], [row]))
                else:
                    later.append((pod, row))
            progress, waiting = len(later) < len(waiting), later
        for pod, _ in (*waiting, *moving):
            index = self.groups.of[pod]
            self.left[index] = [*self.left[index], pod]
        self.placer.expects_empty_hosts = True
        self._place_what_is_left()
        self.placer.expects_empty_hosts = False
        self._place_what_is_left()

    def add_headroom(self, *, at_most: float | None = None) -> None:
        """Make nodes so much larger that kube-scheduler finds a place for every pod, for a price that is given or usual."""
        board = self.board
        rows = board.rows_to_make()
        if not rows:
            return
        headroom = Headroom(board, rows, at_most)
        if not headroom.ways:
            return
        pods, on = map(np.array, self._all_placed)
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
    def _all_placed(self) -> tuple[list[int], list[int]]:
        """Pods and their rows, in order; for when all is done."""
        pods = list(chain.from_iterable(placed.pods for placed in self.placed))
        return pods, list(chain.from_iterable(placed.rows for placed in self.placed))

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unplaced(self) -> int:
        return sum(map(len, self.left))

    @property
    def sound(self) -> bool:
        """Whether the state that the plan ends in keeps the rules; it should, always."""
        return is_sound(self.board, ((self.placer.view(pod_class), rows) for pod_class, _, rows in self.placed))

    @property
    def cost(self) -> Cost:
        board = self.board
        chosen = [*self.sizes.values()] or board.cheapest_offerings(board.rows_to_make())
        return Cost(len(chosen), sum(board.offerings.prices[offering] for offering in chosen))

    def result(self, uids: Sequence[str]) -> Packing:
        """The plan in names; `uids` are those of all pods, by number."""
        board = self.board
        names = board.names
        pods, rows = self._all_placed
        placed_uids = [uids[pod] for pod in pods]
        placements = dict(zip(placed_uids, [names[row] for row in rows], strict=True))
        notes: dict[str, str] = {}
        for pod_class, pods, _ in self.placed:
            unknown = board.volume_rules[pod_class.index].unknown
            if unknown:
                notes.update((uids[pod], unknown) for pod in pods)
        unplaced: dict[str, dict[str, Refusal]] = {}
        for index, left in enumerate(self.left):
            if left:
                why = self._why(self.groups[index])
                unplaced.update((uids[pod], why) for pod in left)
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
