"""Where pods of one class may go at this moment, and how many of them.

A view puts together everything that decides about a class on a board: what never changes during a plan (selectors, taints,
volumes) as one mask over rows, and what does (other pods) as rules over counters. Rules tell two things: which rows are allowed
now, and, where pods of the class get in each other's way, how many more each domain can take.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.board import Board, Ints
from plimsoll.scheduling.classes import PodClass, Shape, Spread
from plimsoll.scheduling.kinds import Kinds
from plimsoll.scheduling.rules import ports_conflict
from plimsoll.scheduling.topology import Counter, Mask

PLENTY = 2**31


class Rule:
    """A rule over one counter. `crowding`: each pod of the class that is placed leaves less room for the next."""

    protects = False  # guards the spread of pods placed earlier; gives way before a pod stays unplaced

    def __init__(self, counter: Counter, *, crowding: bool) -> None:
        self.counter = counter
        self.topology = counter.topology
        self.crowding = crowding

    def allowed(self) -> Mask:
        """By domain: whether one more pod of the class may come."""
        raise NotImplementedError

    def room(self) -> Ints:
        """By domain: how many more pods of the class may come if nothing else changes. For crowding rules."""
        raise NotImplementedError

    nowhere = True  # whether a node without the label is allowed

    def rows(self, size: int) -> Mask:
        allowed = self.allowed()
        if self.topology.private_rows >= size and len(allowed) >= size:
            return allowed[:size]
        padded = np.empty(len(allowed) + 1, np.bool_)
        padded[:-1] = allowed
        padded[-1] = self.nowhere  # index -1 is the last: where there is no label
        rows: Mask = padded[self.topology.domain[:size]]
        return rows

    def room_by_row(self, size: int) -> Ints:
        room = self.room()
        padded = np.append(room, PLENTY if self.nowhere else 0)
        rows: Ints = padded[self.topology.domain[:size]]
        return rows

    def room_on_new_host(self) -> int:
        """How many pods of the class may share a new node, if the rule is about hosts."""
        return PLENTY

    def allows_new(self, value: str | None) -> bool:
        """Whether a new node in that domain would do. A new host is a domain of its own, and empty."""
        if self.topology.of_hosts:
            return True
        if value is None:
            return self.nowhere
        return bool(self.allowed()[self.topology.enter(value)])


def _level_limit(counter: Counter, max_skew: int, min_domains: int, rising: Mask, openable: Mask | None = None) -> int:
    there = counter.there(openable)
    if int(there.sum()) < min_domains:
        return max_skew
    behind = counter.by_domain()[there & ~rising]
    return max_skew + int(behind.min()) if len(behind) else PLENTY


class NoneThere(Rule):
    """Anti-affinity, host ports: not where there is one already."""

    def allowed(self) -> Mask:
        return self.counter.by_domain() == 0

    def room(self) -> Ints:
        return (self.counter.by_domain() == 0).astype(np.int64)

    def room_on_new_host(self) -> int:
        return 1 if self.topology.of_hosts else PLENTY


class EvenlySpread(Rule):
    """The pod's own topology spread."""

    nowhere = False

    def __init__(self, counter: Counter, spread: Spread) -> None:
        super().__init__(counter, crowding=spread.self_match and spread.counts_pods)
        self.spread = spread
        self.expects_empty_hosts = False  # more nodes may follow, and the emptiest host has none
        self.openable: Mask | None = None  # domains without a node in which one could be opened for the class

    def limit(self) -> int:
        """The most that a domain may hold once the pod is there."""
        if not self.spread.counts_pods:
            return PLENTY
        if self.topology.of_hosts and self.expects_empty_hosts:
            return self.spread.max_skew
        return self.spread.max_skew + self.counter.minimum(self.spread.min_domains, self.openable)

    def allowed(self) -> Mask:
        return self.counter.by_domain() <= self.limit() - self.spread.self_match

    def room(self) -> Ints:
        return np.maximum(self.limit() - self.counter.by_domain(), 0)

    def room_on_new_host(self) -> int:
        return self.limit() if self.topology.of_hosts else PLENTY

    def level_limit(self, rising: Mask) -> int:
        """How high the domains in `rising` may go together: held down by the lowest of those that stay behind."""
        return _level_limit(self.counter, self.spread.max_skew, self.spread.min_domains, rising, self.openable)


class KeepsOthersSpread(Rule):
    """Not one more where that would break the spread of pods that this plan has placed."""

    protects = True

    def __init__(self, counter: Counter, kept: Counter, max_skew: int, min_domains: int) -> None:
        super().__init__(counter, crowding=True)
        self.kept = kept
        self.foresees = False  # pods that rely on the spread may yet come to any zone
        self.max_skew = max_skew
        self.min_domains = min_domains

    def allowed(self) -> Mask:
        limit = self.max_skew + self.counter.minimum(self.min_domains)
        below = self.counter.by_domain() < limit
        return below if self.foresees else below | (self.kept.by_domain() == 0)

    def room(self) -> Ints:
        limit = self.max_skew + self.counter.minimum(self.min_domains)
        room = np.maximum(limit - self.counter.by_domain(), 0)
        return room if self.foresees else np.where(self.kept.by_domain() == 0, PLENTY, room)

    def level_limit(self, rising: Mask) -> int:
        """As if a pod that relies on the spread were in every domain: sure to be right, if not always as much as possible."""
        return _level_limit(self.counter, self.max_skew, self.min_domains, rising)


Levelled = EvenlySpread | KeepsOthersSpread


class Together:
    """Pod affinity: where pods that match every term are; the first of a group that wants its own company may go anywhere."""

    def __init__(self, counters: list[Counter], *, wants_itself: bool) -> None:
        self.counters = counters
        self.wants_itself = wants_itself

    @property
    def first(self) -> bool:
        return self.wants_itself and not any(counter.total for counter in self.counters)

    def rows(self, size: int) -> Mask:
        first = self.first
        allowed = np.ones(size, np.bool_)
        for counter in self.counters:
            domain = counter.topology.domain[:size]
            if first:
                allowed &= domain >= 0
            else:
                allowed &= np.append(counter.by_domain() > 0, np.False_)[domain]
        return allowed

    def allows_new(self, domains: dict[str, str | None]) -> bool:
        first = self.first
        for counter in self.counters:
            topology = counter.topology
            if topology.of_hosts:
                if not first:
                    return False
                continue
            value = domains.get(topology.key)
            if value is None or (not first and not counter.by_domain()[topology.enter(value)]):
                return False
        return True


class View:
    def __init__(self, board: Board, pod_class: PodClass) -> None:
        self.board = board
        self.pod_class = pod_class
        self.volumes = board.volume_rules[pod_class.index]
        self.protecting = True  # whether rules that give way are asked at present
        self.expects_empty_hosts = False
        self.foresees = False
        kinds, offerings = board.kinds, board.offering_kinds
        self._static = np.zeros(board.capacity_rows, np.bool_)
        self._static[: board.first_new] = self._never_changes(kinds)
        self.sold_to = self._never_changes(offerings) & board.free_of_daemons_against(pod_class)  # by offering
        self.lane_sets = self._sets_by_lane()
        self._known_rows = board.first_new
        self._known_structure = -1
        self.uniform = all(
            members in (0, lane.everything) for members, lane in zip(self.lane_sets, board.offerings.lanes, strict=True)
        )
        self.spreads = [EvenlySpread(board.spread_counter(pod_class, s), s) for s in pod_class.spread]
        self.rules: list[Rule] = [*self.spreads, *self._anti_rules(), *self._protecting_rules()]
        self.together = self._affinity()
        self.rows_liked = kinds.preferred(pod_class)
        self.offerings_liked = offerings.preferred(pod_class)
        # Weight and counter of preferred terms; weight 0 marks a spread that is only preferred.
        self._soft = [(weight, board.term_counter(term)) for weight, term in pod_class.preferences]
        self._soft += [(0, board.spread_counter(pod_class, s)) for s in pod_class.soft_spread if s.counts_pods]
        self._cached: Mask | None = None
        self._cached_at: tuple[object, ...] = ()
        self._openable_for: tuple[object, ...] = ()
        self._looks_at = {id(rule.counter) for rule in self.rules}
        self._looks_at |= {id(counter) for counter in self.together.counters} if self.together else set()
        self._minds_daemons = any(id(counter) in self._looks_at for counter in board.any_daemon_bumps())

    def _never_changes(self, kinds: Kinds) -> Mask:
        return (
            kinds.schedulable(self.pod_class.tolerations)
            & kinds.selected(self.pod_class)
            & kinds.allowed_by_volumes(self.volumes)
        )

    def _sets_by_lane(self) -> list[int]:
        """By lane: the members that admit the class."""
        found = []
        for lane in self.board.offerings.lanes:
            admitted = self.sold_to[lane.members]
            if admitted.all():
                found.append(lane.everything)
            else:
                found.append(sum(1 << int(i) for i in np.flatnonzero(admitted)))
        return found

    def _anti_rules(self) -> list[Rule]:
        board, me = self.board, self.pod_class
        found: list[Rule] = []
        for term in dict.fromkeys(me.anti_affinity):
            found.append(NoneThere(board.term_counter(term), crowding=board.covers(term, me.identity)))
        for term, who in board.holders.items():
            if board.covers(term, me.identity) and not (term in me.anti_affinity and who == [me.index]):
                found.append(NoneThere(board.holder_counter(term), crowding=term in me.anti_affinity))
        if me.ports:
            found.append(NoneThere(board.port_counter(me), crowding=ports_conflict(me.ports, me.ports)))
        return found

    def _protecting_rules(self) -> list[Rule]:
        bumped = {id(counter): counter for counter in self.board.bumps(self.pod_class)}
        return [
            KeepsOthersSpread(counter, kept, max_skew, min_domains)
            for counter, kept, max_skew, min_domains in self.board.kept_spreads
            if id(counter) in bumped and not self._guarded_by_own_spread(counter, max_skew, min_domains)
        ]

    def _guarded_by_own_spread(self, counter: Counter, max_skew: int, min_domains: int) -> bool:
        return any(
            rule.counter is counter
            and rule.crowding
            and rule.spread.max_skew <= max_skew
            and rule.spread.min_domains >= min_domains
            for rule in self.spreads
        )

    def _affinity(self) -> Together | None:
        if not self.pod_class.affinity:
            return None
        mine = all(self.board.covers(term, self.pod_class.identity) for term in self.pod_class.affinity)
        return Together(self.board.affinity_counters(self.pod_class), wants_itself=mine)

    def foresee(self, foreseen: bool) -> bool:
        """Whether to keep zones even for the sake of pods that are still to come. False if that makes no difference."""
        zonal = [r for r in self.rules if isinstance(r, KeepsOthersSpread) and not r.topology.of_hosts]
        for rule in zonal:
            rule.foresees = foreseen
        self.foresees = foreseen and bool(zonal)
        return bool(zonal)

    def expect_empty_hosts(self, expected: bool) -> None:
        self.expects_empty_hosts = expected
        for rule in self.spreads:
            rule.expects_empty_hosts = expected

    def look_for_openable(self, shape: Shape) -> None:
        """Find which domains could come into being for such a pod: a spread goes there before any domain gets ahead."""
        offerings = self.board.offerings
        key = (shape, offerings.exhausted)
        zonal = [rule for rule in self.spreads if not rule.topology.of_hosts]
        if not zonal or key == self._openable_for:
            return
        self._openable_for = key
        self._cached = None
        usable = [
            lane
            for index, lane in enumerate(offerings.lanes)
            if offerings.can_open(lane) > 0 and lane.holding(shape, self.lane_sets[index])
        ]
        for rule in zonal:
            rule.openable = np.zeros(len(rule.topology.values), np.bool_)
            counted = rule.counter.counted_offerings
            for lane in usable:
                value = lane.domains.get(rule.topology.key)
                if value is not None and counted is not None and counted[lane.members[0]]:
                    rule.openable[rule.topology.enter(value)] = True

    def forget_openable(self) -> bool:
        """No node can be opened after all: domains without one hold nobody back. True if there was such a domain."""
        waited_for = [
            rule
            for rule in self.spreads
            if rule.openable is not None and (rule.openable & (rule.counter.nodes == 0)).any()
        ]
        for rule in waited_for:
            rule.openable = None
        if waited_for:
            self._openable_for = ()
            self._cached = None
        return bool(waited_for)

    # ── now ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def static(self) -> Mask:
        board = self.board
        if self._known_rows < board.size or (self._known_structure != board.structure and not self.uniform):
            if len(self._static) < board.capacity_rows:
                self._static = np.concatenate(
                    (self._static, np.zeros(board.capacity_rows - len(self._static), np.bool_))
                )
            start = self._known_rows if self.uniform else board.first_new
            self._static[start : board.size] = self.sold_to[board.offering[start : board.size]]
            self._known_rows, self._known_structure = board.size, board.structure
        return self._static[: board.size]

    def mask(self) -> Mask:
        """The rows that every rule but amounts allows, as long as new nodes stay the offerings they are taken for."""
        modes = (self.protecting, self.expects_empty_hosts, self.foresees)
        at = (self.board.size, self.board.structure, modes, self._versions())
        if self._cached is None or at != self._cached_at:
            self._cached = self.static() & self.board.alive[: self.board.size] & self.dynamic()
            self._cached_at = at
        return self._cached

    def _versions(self) -> int:
        total = sum(rule.counter.version for rule in self.rules)
        total += sum(rule.kept.version for rule in self.rules if isinstance(rule, KeepsOthersSpread))
        return total + (sum(c.version for c in self.together.counters) if self.together else 0)

    def dynamic(self) -> Mask | np.bool_:
        size = self.board.size
        allowed: Mask | None = None
        for rule in self._asked():
            rows = rule.rows(size)
            allowed = rows if allowed is None else allowed & rows
        if self.together is not None:
            rows = self.together.rows(size)
            allowed = rows if allowed is None else allowed & rows
        return np.True_ if allowed is None else allowed

    def growable(self) -> Mask:
        """By new node: whether every rule but amounts and offerings allows one more pod."""
        board = self.board
        new = slice(board.first_new, board.size)
        sets = np.array([bool(members & self.lane_sets[lane]) for lane, members in board.sets], np.bool_)
        allowed = sets[board.set_of[new]] & board.alive[new]
        dynamic = self.dynamic()
        return allowed & dynamic[new] if isinstance(dynamic, np.ndarray) else allowed

    @property
    def protects_others(self) -> bool:
        return any(rule.protects for rule in self.rules)

    def minds_daemons_of(self, offering: int) -> bool:
        """Whether daemons that come with a new node count in a rule of the class."""
        return any(id(counter) in self._looks_at for counter in self.board.daemon_bumps(offering))

    def relies_on_rows(self) -> bool:
        """Whether what is right now may no longer be once further nodes are there, empty or with their daemons."""
        return self._minds_daemons or any(
            rule.limit() > rule.spread.max_skew and (rule.topology.of_hosts or self._may_gain_domains(rule))
            for rule in self.spreads
        )

    def _may_gain_domains(self, rule: EvenlySpread) -> bool:
        counted, there = rule.counter.counted_offerings, rule.counter.there()
        return any(
            (value := lane.domains.get(rule.topology.key)) is not None
            and not there[rule.topology.enter(value)]
            and counted is not None
            and bool(counted[lane.members[0]])
            for lane in self.board.offerings.lanes
        )

    def _asked(self) -> list[Rule]:
        """The rules that have a say at present."""
        return [
            rule
            for rule in self.rules
            if not isinstance(rule, KeepsOthersSpread) or (self.protecting and (rule.kept.total or rule.foresees))
        ]

    def crowding(self) -> list[Rule]:
        return [rule for rule in self._asked() if rule.crowding]

    def allows_lane(self, lane_index: int) -> bool:
        lane = self.board.offerings.lanes[lane_index]
        return (
            bool(self.lane_sets[lane_index])
            and self.board.offerings.can_open(lane) > 0
            and all(rule.allows_new(lane.domains.get(rule.topology.key)) for rule in self._asked())
            and (
                self.together is None
                or self.together.allows_new(lane.domains)
                or self.board.has_daemons_for(self.pod_class, lane)
            )
        )

    @property
    def has_preferences(self) -> bool:
        return self.rows_liked is not None or self.offerings_liked is not None or bool(self._soft)

    def liking(self) -> NDArray[np.float64]:
        """By row: how much the class would like to be there, each kind of preference counting up to 100 as in kube-scheduler."""
        board = self.board
        liking = np.zeros(board.size)
        if self.rows_liked is not None:
            liking[: board.first_new] += self.rows_liked
        if self.offerings_liked is not None:
            liking[board.first_new :] += self.offerings_liked[board.offering[board.first_new : board.size]]
        for weight, counter in self._soft:
            counts = np.append(counter.by_domain(), 0)[counter.topology.domain[: board.size]]
            if weight:
                liking += weight * (counts > 0)
            else:
                lacking = counter.topology.domain[: board.size] < 0
                liking -= np.where(lacking, 100, 100 * counts / max(1, int(counts.max(initial=0))))
        return liking
