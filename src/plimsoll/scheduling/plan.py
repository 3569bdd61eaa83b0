"""One attempt at a packing: all groups in an order, placed one after the other on a board."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plimsoll.kube.quantity import Quantity
from plimsoll.kube.types import Resources
from plimsoll.scheduling.binding import Planned
from plimsoll.scheduling.board import Board, Ints
from plimsoll.scheduling.bulk import Bulk, Item
from plimsoll.scheduling.classes import LOWEST_PRIORITY_WORTH_A_NODE, PodClass, Shape
from plimsoll.scheduling.headroom import Headroom
from plimsoll.scheduling.model import EXISTING, HOSTNAME, ComingNode, NewNode, Packing, Refusal, Rule, Template
from plimsoll.scheduling.offerings import cheapest, listed
from plimsoll.scheduling.placing import Placer
from plimsoll.scheduling.reasons import refused_by_existing, refused_by_template, refused_everywhere
from plimsoll.scheduling.requests import CPU, PODS, allocatable
from plimsoll.scheduling.snapshot import Snapshot

MANY_GROUPS = 200


class Group:
    """Pods that ask for the same and for as much."""

    __slots__ = ("pod_class", "pods", "shape", "size")

    def __init__(self, pod_class: PodClass, shape: Shape) -> None:
        self.pod_class = pod_class
        self.shape = shape
        self.pods: list[str] = []  # UIDs
        self.size = 0.0  # all amounts weighed together


class Plan:
    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[Group],
        templates: tuple[Template, ...],
        coming: tuple[ComingNode, ...],
        *,
        first_fit: bool = False,
    ) -> None:
        """With `first_fit`, one pod after the other, the largest first, each on the first node that will do."""
        self._coming = coming
        self._replayed = False
        self._first_fit = first_fit
        in_play = {group.pod_class.index: group.pod_class for group in groups}
        self.board = Board(snapshot, in_play.values(), templates, coming)
        self.placer = Placer(self.board, first_fit=first_fit)
        self._largest: dict[int, float] = {}  # by class: the size of its largest pods; its groups follow one another
        sizes: dict[Shape, float] = {}
        for group in groups:
            if group.shape not in sizes:
                sizes[group.shape] = sum(float(self.board.weights[r]) * amount for r, amount in group.shape)
            group.size = sizes[group.shape]
            index = group.pod_class.index
            self._largest[index] = max(self._largest.get(index, 0.0), group.size)
        self.groups = sorted(groups, key=self._by_size if first_fit else self._hardest_first)
        self.placed: list[tuple[Group, list[int], list[int]]] = []  # group, positions of its pods, rows; in order
        self.sizes: dict[int, int] = {}  # row of a new node → offering, where that is to be larger than needed
        self.left: dict[int, list[int]] = {}  # index of the group → positions of its unplaced pods

    def run(self) -> None:
        for index, group in enumerate(self.groups):
            self.left[index] = list(range(len(group.pods)))
        openers = sum(1 for group in self.groups if self._rank(group) == 0)
        self._place_each(give_way=False, until=openers)
        self._place_in_bulk()
        self._place_what_is_left()
        for _ in range(3):
            if self.board.size <= self.board.relied_on_rows and not self._broke_spreads_before_nodes_came():
                break
            self._replay()

    def _broke_spreads_before_nodes_came(self) -> bool:
        """Whether pods stand where others had to be spread, though nodes that were opened later may have taken them."""
        board = self.board
        if board.size == board.first_new or self._replayed:
            return False
        return any(
            bool(((counter.by_domain() > skew + counter.minimum(least)) & (kept.by_domain() > 0)).any())
            for counter, kept, skew, least in board.census.kept_spreads
            if kept.total
        )

    def _place_what_is_left(self) -> None:
        """Again and again until nothing more is placed: what one group places may be what another waits for."""
        while self._place_each(give_way=False):
            pass
        while self._place_each(give_way=True):
            pass

    def _place_each(self, *, give_way: bool, until: int | None = None) -> bool:
        """One round over the groups; False if nothing was placed or nothing is left."""
        progress = False
        for index, group in enumerate(self.groups[:until]):
            waiting = self.left[index]
            if not waiting or group.pod_class.gates:
                continue
            may_open = group.pod_class.priority >= LOWEST_PRIORITY_WORTH_A_NODE
            rows = self.placer.place(group.pod_class, group.shape, len(waiting), may_open=may_open, give_way=give_way)
            if rows:
                progress = True
                self.placed.append((group, waiting[: len(rows)], rows))
                self.left[index] = waiting[len(rows) :]
        return progress and any(self.left.values())

    def _place_in_bulk(self) -> None:
        """The quick way for many groups of few pods each; a plan with few, large groups is as quick without."""
        waiting = [
            index for index, positions in self.left.items() if positions and not self.groups[index].pod_class.gates
        ]
        priorities = {self.groups[index].pod_class.priority for index in waiting}
        if len(waiting) < MANY_GROUPS or len(priorities) != 1 or priorities.pop() < LOWEST_PRIORITY_WORTH_A_NODE:
            return
        items = []
        for index in waiting:
            group = self.groups[index]
            items.append(Item(index, self.placer.view(group.pod_class), group.shape, self.left[index], group.size))
        done: set[tuple[int, int]] = set()
        for entry in Bulk(self.placer, items).place():
            index = entry.item.group
            self.placed.append((self.groups[index], [entry.position], [entry.row]))
            done.add((index, entry.position))
        for index in waiting:
            self.left[index] = [position for position in self.left[index] if (index, position) not in done]

    def _hardest_first(self, group: Group) -> tuple[float, ...]:
        """Pods that need nodes of their own open them; those with rules of their own follow; what fits anywhere fills up."""
        me = group.pod_class
        return (-me.priority, self._rank(group), -self._largest[me.index], me.index, -group.size)

    @staticmethod
    def _rank(group: Group) -> int:
        me = group.pod_class
        if me.ports or any(term.topology_key == HOSTNAME for term in me.anti_affinity):
            return 0
        return 1 if me.spread else 2 if me.affinity or me.anti_affinity else 3

    def _by_size(self, group: Group) -> tuple[float, ...]:
        amounts = dict(group.shape)
        return (-group.pod_class.priority, -amounts.get(0, 0), -amounts.get(1, 0), group.pod_class.index)

    def _replay(self) -> None:
        """Place everything once more, with all nodes of the plan there from the start, each pod where it was if it may.

        A node that was opened late is an empty domain, below which pods spread over hosts may stand too high.
        """
        self._replayed = True
        old, placed = self.board, self.placed
        self.board = Board(old.snapshot, old.in_play, old.offerings.templates, self._coming)
        self.placer = Placer(self.board, first_fit=self._first_fit)
        self.placed = []
        row_of = {row: row for row in range(old.first_new)}
        for row in range(old.first_new, old.size):
            if old.held[:, row].any():
                lane, members = old.sets[int(old.set_of[row])]
                row_of[row] = int(self.board.open(lane, members, int(old.offering[row]), 1)[0])
        waiting = [(g, p, row_of[r]) for g, positions, rows in placed for p, r in zip(positions, rows, strict=True)]
        progress = True
        while waiting and progress:
            later = []
            for group, position, row in waiting:
                if self.placer.put(group.pod_class, group.shape, row):
                    self.placed.append((group, [position], [row]))
                else:
                    later.append((group, position, row))
            progress, waiting = len(later) < len(waiting), later
        index_of = {id(group): index for index, group in enumerate(self.groups)}
        for group, position, _ in waiting:
            self.left[index_of[id(group)]].append(position)
        self.placer.expects_empty_hosts = True
        self._place_what_is_left()
        self.placer.expects_empty_hosts = False
        self._place_what_is_left()

    def add_headroom(self, most_price: float) -> None:
        """Make nodes so much larger that kube-scheduler finds a place for every pod, for at most that price in all."""
        board = self.board
        planned: dict[tuple[int, int], Planned] = {}
        for group, _, rows in self.placed:
            for row in rows:
                if row >= board.first_new:
                    key = (id(group), row)
                    known = planned.get(key)
                    count = 1 if known is None else known.pods + 1
                    view, amounts = self.placer.view(group.pod_class), board.vector(group.shape)
                    planned[key] = Planned(row, view, amounts, count)
        if planned:
            self.sizes = Headroom(board, list(planned.values()), most_price).choose()

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unplaced(self) -> int:
        return sum(len(positions) for positions in self.left.values())

    @property
    def cost(self) -> tuple[int, float]:
        """Nodes to make, and their price."""
        board = self.board
        rows = [row for row in range(board.first_new, board.size) if board.held[:, row].any()]
        return len(rows), sum(board.offerings.prices[board.cheapest_offering(row)] for row in rows)

    def result(self) -> Packing:
        board = self.board
        placements: dict[str, str] = {}
        on_new: dict[int, list[str]] = {}
        notes: dict[str, str] = {}
        for group, positions, rows in self.placed:
            unknown = board.volume_rules[group.pod_class.index].unknown
            for position, row in zip(positions, rows, strict=True):
                uid = group.pods[position]
                placements[uid] = board.names[row]
                if row >= board.first_new:
                    on_new.setdefault(row, []).append(uid)
                if unknown:
                    notes[uid] = unknown
        unplaced: dict[str, dict[str, Refusal]] = {}
        for index, positions in self.left.items():
            if positions:
                why = self._why(self.groups[index])
                unplaced.update((self.groups[index].pods[position], why) for position in positions)
        nodes = _NewNodes(board, self.sizes)
        return Packing(placements, tuple(nodes.make(row, on_new[row]) for row in sorted(on_new)), unplaced, notes)

    def _why(self, group: Group) -> dict[str, Refusal]:
        me, templates = group.pod_class, self.board.offerings.templates
        keys = [EXISTING, *(template.name for template in templates)]
        view = self.placer.view(me)
        hopeless = refused_everywhere(view)
        if hopeless is not None:
            return dict.fromkeys(keys, hopeless)
        why = {EXISTING: refused_by_existing(view, group.shape)}
        for index, template in enumerate(templates):
            if me.priority < LOWEST_PRIORITY_WORTH_A_NODE:
                words = f"priority {me.priority} is below {LOWEST_PRIORITY_WORTH_A_NODE}: the pod only uses what is left over"
                why[template.name] = Refusal(Rule.PRIORITY, words)
            else:
                why[template.name] = refused_by_template(view, group.shape, index)
        return why


class _NewNodes:
    """Rows of the board as nodes to make. Many have the same candidates: they are listed once."""

    def __init__(self, board: Board, sizes: dict[int, int]) -> None:
        self._board = board
        self._sizes = sizes
        self._names: dict[tuple[int, int], tuple[str, ...]] = {}
        self._daemons: dict[int, Ints] = {}

    def make(self, row: int, pods: list[str]) -> NewNode:
        board = self._board
        lane, members = board.lane_at(row), board.holding(row)
        sold = board.offerings.sold
        key = (int(lane.members[0]), members)
        if key not in self._names:
            self._names[key] = tuple(sold[lane.members[m]].offering.name for m in listed(members))
        offering = self._sizes.get(row, int(lane.members[cheapest(members)]))
        return NewNode(
            name=board.names[row],
            template=board.offerings.templates[lane.template].name,
            offering=sold[offering].offering.name,
            candidates=self._names[key],
            pods=tuple(pods),
            requested=self._requested(row, offering),
            price=sold[offering].offering.price,
        )

    def _requested(self, row: int, offering: int) -> Resources:
        """By pods and daemons together."""
        amounts = self._board.held[:, row] + self._by_daemons(offering)
        named = zip(self._board.classes.resources, amounts.tolist(), strict=True)
        return {name: Quantity(a if name == CPU else a * 1000) for name, a in named if a and name != PODS}

    def _by_daemons(self, offering: int) -> Ints:
        """What daemons hold: it has been taken off the capacity of the offering."""
        if offering not in self._daemons:
            board = self._board
            given = allocatable(board.offerings.sold[offering].offering.allocatable)
            whole = np.array([given.get(name, 0) for name in board.classes.resources], np.int64)
            self._daemons[offering] = whole - board.offerings.caps[:, offering]
        return self._daemons[offering]
