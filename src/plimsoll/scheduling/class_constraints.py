"""Where pods of one class may go at this moment, and how many of them.

A view puts together everything that decides about a class on a board: what never changes during a plan (selectors, taints,
volumes) as one mask over rows, and what does (other pods) as rules over counters.
"""

from __future__ import annotations

from itertools import chain, product, repeat
from math import prod

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.inter_pod_rules import PLENTY, EvenlySpread, KeepsOthersSpread, NoneThere, Rule, Together
from plimsoll.scheduling.plan_state import Board
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.rules import ports_conflict
from plimsoll.scheduling.static_feasibility import Grounds
from plimsoll.scheduling.topology import Counter, Mask

_MOST_WAYS = 32  # of giving way that are tried one after the other


class View:
    def __init__(self, board: Board, pod_class: PodClass, grounds: Grounds) -> None:
        self.board = board
        self.pod_class = pod_class
        self.volumes = board.volume_rules[pod_class.index]
        self.grounds = grounds
        self.lane_sets = grounds.lane_sets
        self.uniform = grounds.uniform

        self.spreads = [EvenlySpread(counter, spread) for spread, counter, _ in board.census.own_spreads(pod_class)]
        self._protecting_rules = self._make_protecting_rules()
        self.rules: list[Rule] = [*self.spreads, *self._make_anti_rules(), *self._protecting_rules]
        self.together = self._make_affinity()
        self._zonal_spreads = [rule for rule in self.spreads if not rule.topology.of_hosts]
        self._zonal_protection = [rule for rule in self._protecting_rules if not rule.topology.of_hosts]
        self.counters = [rule.counter for rule in self.rules] + [rule.kept for rule in self._protecting_rules]
        self.counters += self.together.counters if self.together is not None else []

        self.host_rules = [rule for rule in self.rules if rule.topology.of_hosts]
        self.bumps = board.census.bumps(pod_class)
        self.host_bumps = [counter for counter in self.bumps if counter.topology.of_hosts]

        # Weight and counter of preferred terms; weight 0 marks a spread that is only preferred.
        self._soft = [(weight, board.census.term_counter(term)) for weight, term in pod_class.preferences]
        self._soft += [(0, board.census.spread_counter(pod_class, s)) for s in pod_class.soft_spread if s.counts_pods]
        self._rows_liked = board.kinds.preferred(pod_class)
        self.offerings_liked = board.offering_kinds.preferred(pod_class)
        self.has_preferences = bool(self._rows_liked is not None or self.offerings_liked is not None or self._soft)

        self.gives_up: tuple[int, ...] | None = None  # by protecting rule: of how many pods it may break the spread
        self.foresees = False
        self.expects_empty_hosts = False
        self._openable_for: tuple[object, ...] = ()
        self._mask: Mask = np.zeros(0, np.bool_)
        self._mask_at: tuple[object, ...] = ()
        # Whether daemons that come with new nodes count in a rule of the class.
        self.minds_daemons = bool(board.daemons) and not {*self.counters}.isdisjoint(board.daemons.any_bumps())

    @property
    def minds_neighbours(self) -> bool:
        """Whether it matters to the class, now and once all are placed, who else is there."""
        return self.together is not None or any(isinstance(rule, NoneThere) for rule in self.rules)

    def static(self) -> Mask:
        """By row: whether the class may ever go there, as long as a new node stays the offering it is taken for."""
        return self.grounds.rows()

    # ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_anti_rules(self) -> list[Rule]:
        board, me = self.board, self.pod_class
        found: list[Rule] = [
            NoneThere(board.census.term_counter(term), crowding=board.census.covers(term, me.identity))
            for term in dict.fromkeys(me.anti_affinity)
        ]
        for term, who in board.census.holders.items():
            if board.census.covers(term, me.identity) and not (term in me.anti_affinity and who == [me.index]):
                found.append(NoneThere(board.census.holder_counter(term), crowding=term in me.anti_affinity))
        if me.ports:
            found.append(NoneThere(board.census.port_counter(me), crowding=ports_conflict(me.ports, me.ports)))
        return found

    def _make_protecting_rules(self) -> list[KeepsOthersSpread]:
        return [
            KeepsOthersSpread(counter, kept, max_skew, min_domains)
            for counter, kept, max_skew, min_domains in self.board.census.spreads_changed_by(self.pod_class)
            if (counter.watched is None or self.grounds.are_watched(counter.watched))
            and not self._guarded_by_own_spread(counter, max_skew, min_domains)
        ]

    def _guarded_by_own_spread(self, counter: Counter, max_skew: int, min_domains: int) -> bool:
        return any(
            rule.counter is counter and rule.crowding and rule.max_skew <= max_skew and rule.min_domains >= min_domains
            for rule in self.spreads
        )

    def _make_affinity(self) -> Together | None:
        if not self.pod_class.affinity:
            return None
        mine = all(self.board.census.covers(term, self.pod_class.identity) for term in self.pod_class.affinity)
        return Together(self.board.census.affinity_counters(self.pod_class), wants_itself=mine)

    @property
    def protects_others(self) -> bool:
        return bool(self._protecting_rules)

    def asked(self) -> list[Rule]:
        """The rules that have a say at present."""
        if not self._protecting_rules:
            return self.rules
        silent = [r for r in self._protecting_rules if not (r.kept.total or r.foresees)]
        return [rule for rule in self.rules if rule not in silent] if silent else self.rules

    # ── moods: how strictly the rules are read ───────────────────────────────────────────────────────────────────────

    def foresee(self, *, foreseen: bool) -> bool:
        """Whether to keep zones even for the sake of pods that are still to come. False if that makes no difference."""
        if not self._zonal_protection:
            return False
        for rule in self._zonal_protection:
            rule.foresees = foreseen
        self.foresees = foreseen
        return True

    def ways_to_give_way(self) -> list[tuple[int, ...]]:
        """By protecting rule, how many pods in a domain it may give up: what disturbs the fewest first, whatever it takes last."""
        by_rule = [sorted({0, *rule.kept.by_domain().tolist()}) for rule in self._protecting_rules]
        if prod(map(len, by_rule)) <= _MOST_WAYS:
            ways = sorted(product(*by_rule), key=sum)
        else:
            ways = [(number,) * len(by_rule) for number in sorted(set(chain(*by_rule)))[:_MOST_WAYS]]
        return [*ways, self.whatever_it_takes()]

    def whatever_it_takes(self) -> tuple[int, ...]:
        return (PLENTY,) * len(self._protecting_rules)

    def give_up(self, pods: tuple[int, ...] | None) -> None:
        self.gives_up = pods
        for rule, number in zip(self._protecting_rules, pods or repeat(None), strict=False):
            rule.give_up(number)

    def expect_empty_hosts(self, *, expected: bool) -> None:
        self.expects_empty_hosts = expected
        for rule in self.spreads:
            rule.expects_empty_hosts = expected

    def look_for_openable(self, shape: Shape) -> None:
        """Find which domains could come into being for such a pod: a spread goes there before any domain gets ahead."""
        key = (shape, self.board.offerings.exhausted)
        if not self._zonal_spreads or key == self._openable_for:
            return
        self._openable_for = key
        for rule in self._zonal_spreads:
            openable = self.grounds.openable(shape, rule.watched)
            if rule.openable is None or (rule.openable is not openable and (openable != rule.openable).any()):
                rule.openable = openable
                self._mask_at = ()

    def forget_openable(self) -> bool:
        """No node can be opened after all: domains without one hold nobody back. True if one was waited for."""
        waited_for = [rule for rule in self._zonal_spreads if rule.domains_to_come()]
        for rule in waited_for:
            rule.openable = None
        if waited_for:
            self._openable_for = self._mask_at = ()
        return bool(waited_for)

    # ── now ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def mask(self) -> Mask:
        """The rows that every rule but amounts allows, as long as new nodes stay the offerings they are taken for."""
        board = self.board
        seen = sum([counter.version for counter in self.counters])
        only_in = self.together.first_only_in if self.together is not None else None
        at = (board.size, board.structure, seen, self.gives_up, self.foresees, self.expects_empty_hosts, only_in)
        if at != self._mask_at:
            mask = self.static() & board.alive[: board.size]
            for rule in self.asked():
                mask &= rule.rows(board.size)
            if self.together is not None:
                mask &= self.together.rows(board.size)
            self._mask, self._mask_at = mask, at
        return self._mask

    def open_rows(self) -> Mask:
        """`mask`, without empty new nodes where the pod is worth none: it uses what is left over on nodes that others need."""
        mask = self.mask()
        if self.pod_class.worth_a_node:
            return mask
        first_new = self.board.first_new
        return np.concatenate((mask[:first_new], mask[first_new:] & self.board.in_use()))

    def stay_apart(self) -> bool:
        """Whether each pod of the class needs a host of its own and nothing else about one matters to the next."""
        crowding = [rule for rule in self.asked() if rule.crowding]
        size = self.board.size
        return (
            bool(crowding)
            and all(rule.topology.each_row_its_own(size) and rule.room_on_new_host() == 1 for rule in crowding)
            and self.together is None
            and not self._zonal_spreads
            and not self.has_preferences
            and not self.minds_daemons
        )

    def growable(self) -> Mask:
        """By new node: whether every rule but amounts and offerings allows one more pod."""
        board = self.board
        new = slice(board.first_new, board.size)
        sets = np.array([bool(members & self.lane_sets[lane]) for lane, members in board.sets], np.bool_)
        allowed = sets[board.set_of[new]] & board.alive[new]
        for rule in self.asked():
            allowed &= rule.rows(board.size)[new]
        if self.together is not None:
            allowed &= self.together.rows(board.size)[new]
        return allowed if self.pod_class.worth_a_node else allowed & board.in_use()

    def allows_lane(self, lane_index: int) -> bool:
        board = self.board
        lane = board.offerings.lanes[lane_index]
        return (
            bool(self.lane_sets[lane_index])
            and board.offerings.can_open(lane) > 0
            and all(
                rule.allows_new(lane.domains.get(rule.topology.key)) or rule.overlooks(int(lane.members[0]))
                for rule in self.asked()
            )
            and (
                self.together is None
                or self.together.allows_new(lane.domains)
                or board.daemons.keep_company(self.pod_class, lane)
            )
        )

    def relies_on_rows(self) -> bool:
        """Whether what is right now may no longer be once further nodes are there, empty or with their daemons."""
        return self.minds_daemons or any(
            rule.limit() > rule.max_skew and (rule.topology.of_hosts or self._may_gain_domains(rule))
            for rule in self.spreads
        )

    def _may_gain_domains(self, rule: EvenlySpread) -> bool:
        watched = rule.watched
        watched.fit()
        return any(
            (value := lane.domains.get(rule.topology.key)) is not None
            and not watched.there[rule.topology.enter(value)]
            and bool(watched.offerings[lane.members[0]])
            for lane in self.board.offerings.lanes
        )

    def liking(self) -> NDArray[np.float64]:
        """By row: how much the class would like to be there, each kind of preference up to 100 as in kube-scheduler."""
        board = self.board
        liking = np.zeros(board.size)
        if self._rows_liked is not None:
            liking[: board.first_new] += self._rows_liked
        if self.offerings_liked is not None:
            liking[board.first_new :] += self.offerings_liked[board.offering[board.first_new : board.size]]
        for weight, counter in self._soft:
            domains = counter.topology.domain[: board.size]
            counts = np.append(counter.by_domain(), 0)[domains]
            if weight:
                liking += weight * (counts > 0)
            else:
                liking -= np.where(domains < 0, 100, 100 * counts / max(1, int(counts.max(initial=0))))
        return liking
