"""Placing a group of equal pods: on nodes at hand, on new nodes as they are, on new nodes made larger, on further new nodes.

The loop in `Placer._place_all` is the whole algorithm. Each turn works out what every rule allows at that moment and then places
as many pods at once as is certain to be right: all of them where the pods do not get in each other's way, one a node for
anti-affinity, level by level over zones for a spread, a single one where rules interlock or preferences must be weighed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.inter_pod_rules import PLENTY, Level, Rule
from plimsoll.scheduling.node_sizing import Grower
from plimsoll.scheduling.plan_state import Board, Ints, RowIndex
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.static_feasibility import Grounds, what_it_asks_of_nodes
from plimsoll.scheduling.topology import NOWHERE, Domains, Mask, Topology
from plimsoll.scheduling.water_filling import levelled

# So few pods are placed one by one sooner than the arrays for placing them together are set up.
_A_FEW = 3


class Placer:
    def __init__(self, board: Board, *, first_fit: bool = False, crowds: Mapping[int, int] | None = None) -> None:
        self.board = board
        self._crowds = crowds or {}  # by class: how many pods there are to place
        self.first_fit = first_fit  # take the first node that will do, not the one that fits best
        self.expects_empty_hosts = False
        self.may_open = True  # further nodes, for pods that are worth one
        self.opened_for_room = False  # whether a node was opened though rules would have allowed others
        self.grower = Grower(board, first_fit=first_fit)
        self._views: dict[int, View] = {}
        self._grounds: dict[object, Grounds] = {}

    def view(self, pod_class: PodClass) -> View:
        view = self._views.get(pod_class.index)
        if view is None:
            asks = what_it_asks_of_nodes(self.board, pod_class)
            grounds = self._grounds.get(asks)
            if grounds is None:
                grounds = self._grounds[asks] = Grounds(self.board, pod_class)
            view = self._views[pod_class.index] = View(self.board, pod_class, grounds)
        return view

    def place(
        self, pod_class: PodClass, shape: Shape, count: int, *, may_open: bool = True, give_way: bool = True
    ) -> list[int]:
        """Place up to `count` pods; the row of each, in an order that every rule agrees with.

        With `give_way`, the spread of pods placed earlier, as few as possible, is broken before a pod stays unplaced, and one that
        cannot go where most others of its company can may decide for all.
        """
        view = self.view(pod_class)
        may_open = may_open and self.may_open
        view.expect_empty_hosts(expected=self.expects_empty_hosts)
        placed: list[int] = []
        if view.together is not None:
            view.together.first_only_in = self.common_domains(view)
        self._place_all(view, shape, count, placed, may_open=may_open)
        if view.together is not None:
            view.together.first_only_in = None
            if give_way and len(placed) < count and view.together.first:
                self._place_all(view, shape, count, placed, may_open=may_open)
        if give_way and len(placed) < count and view.protects_others:
            view.give_up(view.whatever_it_takes())
            for way in view.ways_to_give_way() if self._could_be_placed(view, shape, may_open=may_open) else ():
                view.give_up(way)
                self._place_all(view, shape, count, placed, may_open=may_open)
                if len(placed) == count:
                    break
            view.give_up(None)
        return placed

    def place_apart(self, view: View, groups: Sequence[tuple[Shape, int]]) -> list[list[int]]:
        """Give each pod of a class whose pods may not share a host a new node, if there is no other that will do. By group, a shape
        and its number of pods: the row of each, as many as there are nodes to be had.

        What `place` would do group by group, where every group but the first finds the nodes of the others taken.
        """
        board = self.board
        if (
            self.first_fit
            or not view.pod_class.worth_a_node
            or not view.stay_apart()
            or view.open_rows().any()
            or view.growable().any()
        ):
            return []
        openings = [self.grower.openings(view, shape, pods, ()) for shape, pods in groups]
        nodes = [sum(opening.nodes for opening in of_group) for of_group in openings]
        if not sum(nodes):
            return []
        rows = board.open([opening for of_group in openings for opening in of_group])
        board.place_each(view.pod_class, [shape for shape, _ in groups], nodes, rows)
        self.note_reliance(view)
        every = iter(rows.tolist())
        return [list(islice(every, count)) for count in nodes]

    def _could_be_placed(self, view: View, shape: Shape, *, may_open: bool) -> bool:
        """False where it is no use to try one way after the other."""
        board = self.board
        if len(self._fitting(shape, view.open_rows(), 0, board.size)) or view.growable().any():
            return True
        return may_open and any(view.allows_lane(index) for index in range(len(board.offerings.lanes)))

    def put(self, pod_class: PodClass, shape: Shape, row: int, *, heedless: bool = False) -> bool:
        """Place one pod on that very row, if it may go there; `heedless` of the spread of others."""
        view = self.view(pod_class)
        if heedless:
            view.give_up(view.whatever_it_takes())
        allowed = view.open_rows()[row]
        if heedless:
            view.give_up(None)
        if not allowed or any(self.board.free[resource, row] < amount for resource, amount in shape):
            return False
        self._put_one(view, shape, row)
        self.note_reliance(view)
        return True

    def note_reliance(self, view: View) -> None:
        """Remember from how many rows on a further one may make wrong what was right."""
        if self.board.relied_on_rows > self.board.size and view.relies_on_rows():
            self.board.relied_on_rows = self.board.size

    def _place_all(self, view: View, shape: Shape, count: int, placed: list[int], *, may_open: bool) -> None:
        board = self.board
        closed: set[int] = set()  # lanes that were tried in vain
        opened_in: list[int] = []  # lanes of the nodes from row `opened` on, which are there for this group
        opened = board.size
        if may_open:
            view.look_for_openable(shape)
        else:
            view.forget_openable()
        while len(placed) < count:
            left = count - len(placed)
            if self._fill_with_foresight(view, shape, left, placed, opened if opened_in else 0):
                opened_in = []
                self.note_reliance(view)
                continue
            if opened_in:  # not even a fresh node will do: a daemon on it is in the way
                closed.update(opened_in)
                board.close(opened)
                opened_in = []
            growable = view.growable()
            if not self.first_fit and self.grower.grow(view, shape, growable):
                continue
            if may_open:
                opened = board.size
                openings = self.grower.openings(view, shape, left, closed)
                if openings:
                    board.open(openings)
                    opened_in = [opening.lane for opening in openings]
                    self.opened_for_room = self.opened_for_room or bool(growable.any())
                    continue
            if not view.forget_openable():
                return  # no domain was waited for in vain: this is how it is

    # ── on open nodes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _fill_with_foresight(self, view: View, shape: Shape, left: int, placed: list[int], first: int) -> bool:
        if view.gives_up is None and view.foresee(foreseen=True):
            filled = self._fill(view, shape, left, placed, first)
            view.foresee(foreseen=False)
            if filled:
                return True
        return self._fill(view, shape, left, placed, first)

    def _fill(self, view: View, shape: Shape, left: int, placed: list[int], first: int) -> bool:
        """Place what fits now on rows from `first` on, existing and coming before new ones; False if nothing does."""
        board = self.board
        crowding: list[Rule] = []
        single = left == 1 or view.has_preferences or (view.together is not None and view.together.first)
        if not single:
            crowding = [rule for rule in view.asked() if rule.crowding]
            zonal = [rule for rule in crowding if not rule.topology.each_row_its_own(board.size)]
            if zonal:
                level = zonal[0] if len(zonal) == 1 and left > _A_FEW and not self.first_fit else None
                rows_by_level = (
                    self._fill_levels(view, shape, left, level, first=first) if isinstance(level, Level) else []
                )
                if rows_by_level:
                    placed += rows_by_level
                    return True
                single = True
        mask = view.open_rows()
        for start, stop in ((first, board.first_new), (max(first, board.first_new), board.size)):
            if start >= stop:
                continue
            if self.first_fit and stop == board.size and not self.grower.sizes_are_fixed():
                return self._fill_first(view, shape, 1 if single else left, placed, first)
            rows = self._fitting(shape, mask, start, stop)
            if not len(rows):
                continue
            if single:
                row = self._best(view, rows)
                self._put_one(view, shape, row)
                placed.append(row)
            else:
                rows, counts = self._choose(rows, self._capacity(shape, rows, crowding), left)
                self._put(view, shape, rows, counts)
                placed += np.repeat(rows, counts).tolist()
            return True
        return False

    def _fill_first(self, view: View, shape: Shape, left: int, placed: list[int], first: int) -> bool:
        """The first new node that could become an offering which holds one more, filled to what it could hold at most."""
        crowding = [rule for rule in view.asked() if rule.crowding]
        for row in self.grower.could_hold(view, shape):
            if row < first:
                continue
            rows = np.array([row])
            most = min([left, *(int(rule.room_at(rows)[0]) for rule in crowding)])
            count = self.grower.resize_for(view, row, shape, most)
            if count:
                self._put(view, shape, rows, np.array([count]))
                placed += [row] * count
                return True
        return False

    def _fitting(self, shape: Shape, mask: Mask, start: int, stop: int) -> RowIndex:
        fits = mask[start:stop]
        free = self.board.free
        for resource, amount in shape:
            fits = fits & (free[resource, start:stop] >= amount)
        rows: RowIndex = fits.nonzero()[0]
        return rows + start if start else rows

    def _best(self, view: View, rows: RowIndex) -> int:
        if view.has_preferences:
            liking = view.liking()[rows]
            rows = rows[liking == liking.max()]
        if view.together is not None and view.together.first:
            topology = view.together.counters[0].topology
            rows = self._roomiest_domain(topology.domain[rows], rows)
        return int(rows[0] if self.first_fit else rows[self.board.slack[rows].argmin()])

    def common_domains(self, view: View) -> frozenset[int] | None:
        """Where most pods in play with the same affinity could go: the first of them decides for the others, too. The more important
        ones have their say first. None if nothing is left to decide, or if it is about hosts.
        """
        if view.together is None or not view.together.first or view.together.counters[0].topology.of_hosts:
            return None
        topology = view.together.counters[0].topology
        company = [other for other in self.board.in_play if other.affinity == view.pod_class.affinity]
        priorities = sorted({other.priority for other in company}, reverse=True)
        votes: dict[int, list[int]] = {}
        for other in company:
            for domain in self.reached(self.view(other), topology):
                by_priority = votes.setdefault(domain, [0] * len(priorities))
                by_priority[priorities.index(other.priority)] += self._crowds.get(other.index, 1)
        most = max(votes.values(), default=[])
        return frozenset(domain for domain, by_priority in votes.items() if by_priority == most)

    def reached(self, view: View, topology: Topology) -> set[int]:
        """The domains with a node that will have the class, or where one could be opened for it."""
        reached = set(topology.domain[: self.board.size][view.static()].tolist()) - {NOWHERE}
        for lane, members in zip(self.board.offerings.lanes, view.lane_sets, strict=True):
            value = lane.domains.get(topology.key)
            if members and value is not None and self.board.offerings.can_open(lane):
                reached.add(topology.enter(value))
        return reached

    def _roomiest_domain(self, domains: Domains, rows: RowIndex) -> RowIndex:
        """The first of a group that stays together decides for all: let it be where most room is."""
        room = np.bincount(domains, np.maximum(self.board.slack[rows], 0) + 1e-12)
        inside: RowIndex = rows[domains == room.argmax()]
        return inside

    def _capacity(self, shape: Shape, rows: RowIndex, crowding: list[Rule]) -> Ints:
        """How many pods each row takes: by amounts, and by rules of the pods' own that say how many may be on a host."""
        free = self.board.free
        capacity = np.full(len(rows), PLENTY)
        for resource, amount in shape:
            np.minimum(capacity, free[resource, rows] // amount, out=capacity)
        for rule in crowding:
            np.minimum(capacity, rule.room_at(rows), out=capacity)
        return capacity

    def _choose(self, rows: RowIndex, capacity: Ints, left: int) -> tuple[RowIndex, Ints]:
        """Fill the tightest row first, each to the brim, until `left` pods have a place."""
        if not self.first_fit and len(rows) > 1:
            order = self.board.slack[rows].argsort(kind="stable")
            if len(order) > left:
                order = order[:left]  # each takes at least one
            rows, capacity = rows[order], capacity[order]
        total = capacity.cumsum()
        used = int(total.searchsorted(left)) + 1
        rows, capacity = rows[:used], capacity[:used]
        over = int(total[len(rows) - 1]) - left
        if over > 0:
            capacity[-1] -= over
        return rows, capacity

    def _put(self, view: View, shape: Shape, rows: RowIndex, counts: Ints) -> None:
        if len(rows) <= _A_FEW:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._put_one(view, shape, row, count)
            return
        self.board.place(view.pod_class, shape, rows, counts)
        if not view.uniform:
            new = rows[rows >= self.board.first_new]
            if len(new):
                self.board.narrow(new, view.lane_sets)

    def _put_one(self, view: View, shape: Shape, row: int, count: int = 1) -> None:
        self.board.place_one(view.pod_class, shape, row, count)
        if not view.uniform and row >= self.board.first_new:
            self.board.narrow(np.array([row]), view.lane_sets)

    def _fill_levels(self, view: View, shape: Shape, left: int, rule: Level, *, first: int) -> list[int]:
        """Spread over zones by counting: all domains with room rise together, none further above the lowest than allowed."""
        board = self.board
        rows = self._fitting(shape, view.open_rows(), first, board.size)
        domains = rule.topology.domain[rows]
        if len(domains) and domains.min() < 0:
            rows, domains = rows[domains >= 0], domains[domains >= 0]
        if not len(rows):
            return []
        hosts = [other for other in view.asked() if other.crowding and other is not rule]
        capacity = self._capacity(shape, rows, hosts)
        counts = rule.counter.by_domain()
        room = np.bincount(domains, capacity, minlength=len(counts)).astype(np.int64)
        shares = levelled(counts.tolist(), left, rule.level_limit((room > 0).tolist()), room.tolist())
        by_level: list[tuple[int, int, int]] = []
        for domain, share in enumerate(shares):
            inside = (domains == domain).nonzero()[0]
            split = int(rows[inside].searchsorted(board.first_new))
            level, due = int(counts[domain]), share
            for part in (inside[:split], inside[split:]):
                if due and len(part):
                    chosen, numbers = self._choose(rows[part], capacity[part], due)
                    self._put(view, shape, chosen, numbers)
                    expanded = np.repeat(chosen, numbers).tolist()
                    done = share - due
                    by_level += [(level + done + i, domain, row) for i, row in enumerate(expanded)]
                    due -= len(expanded)
        by_level.sort(key=lambda entry: entry[:2])
        return [row for _, _, row in by_level]
