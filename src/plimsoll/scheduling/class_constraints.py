"""Which nodes accept pods of one class at this moment, and how many. Built by `group_placement` and `fits`.

`ClassConstraints` combines everything that decides about a class within a `PlanState`: what never changes during a plan
(selectors, taints, volumes) as one mask over rows, and what does change (other pods) as inter-pod rules over counters.
"""

from __future__ import annotations

from itertools import chain, product, repeat
from math import prod

import numpy as np
from numpy.typing import NDArray

from plimsoll.scheduling.inter_pod_rules import (
    PLENTY,
    AffinityRule,
    Exclusion,
    InterPodRule,
    OwnSpreadRule,
    ProtectedSpread,
)
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.rules import ports_conflict
from plimsoll.scheduling.static_feasibility import StaticFeasibility
from plimsoll.scheduling.topology import Mask, TopologyCounter

_MOST_WAYS = 32  # number of relaxations that are tried one after the other


class ClassConstraints:
    def __init__(self, state: PlanState, pod_class: PodClass, feasibility: StaticFeasibility) -> None:
        self.state = state
        self.pod_class = pod_class
        self.volumes = state.volume_rules[pod_class.index]
        self.feasibility = feasibility
        self.lane_sets = feasibility.lane_sets
        self.uniform = feasibility.uniform

        self.spreads = [
            OwnSpreadRule(counter, spread) for spread, counter, _ in state.pod_counters.own_spreads(pod_class)
        ]
        self._protecting_rules = self._make_protecting_rules()
        self.rules: list[InterPodRule] = [*self.spreads, *self._make_anti_rules(), *self._protecting_rules]
        self.affinity_rule = self._make_affinity()
        self._zonal_spreads = [rule for rule in self.spreads if not rule.topology.of_hosts]
        self._zonal_protection = [rule for rule in self._protecting_rules if not rule.topology.of_hosts]
        self.counters = [rule.counter for rule in self.rules] + [rule.kept for rule in self._protecting_rules]
        self.counters += self.affinity_rule.counters if self.affinity_rule is not None else []

        self.host_rules = [rule for rule in self.rules if rule.topology.of_hosts]
        self.increments = state.pod_counters.increments(pod_class)
        self.host_increments = [counter for counter in self.increments if counter.topology.of_hosts]

        # Weight and counter of preferred terms; weight 0 marks a ScheduleAnyway spread.
        self._soft = [(weight, state.pod_counters.term_counter(term)) for weight, term in pod_class.preferences]
        self._soft += [
            (0, state.pod_counters.spread_counter(pod_class, s)) for s in pod_class.soft_spread if s.counts_pods
        ]
        self._row_scores = state.node_classes.preferred(pod_class)
        self.offering_scores = state.offering_classes.preferred(pod_class)
        self.has_preferences = bool(self._row_scores is not None or self.offering_scores is not None or self._soft)

        self.gives_up: tuple[int, ...] | None = None  # by protecting rule: the number of pods whose spread it may break
        self.foresees = False
        self.expects_empty_hosts = False
        self._openable_for: tuple[object, ...] = ()
        self._mask: Mask = np.zeros(0, np.bool_)
        self._mask_at: tuple[object, ...] = ()
        # Whether DaemonSet pods of new nodes count in a rule of the class.
        self.counts_daemons = bool(state.daemons) and not {*self.counters}.isdisjoint(state.daemons.all_increments())

    @property
    def has_inter_pod_rules(self) -> bool:
        """Whether affinity, anti-affinity or host ports of the class depend on other pods."""
        return self.affinity_rule is not None or any(isinstance(rule, Exclusion) for rule in self.rules)

    def static(self) -> Mask:
        """By row: whether the class may ever run there, as long as a new node keeps its current offering."""
        return self.feasibility.rows()

    # ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_anti_rules(self) -> list[InterPodRule]:
        state, me = self.state, self.pod_class
        found: list[InterPodRule] = [
            Exclusion(state.pod_counters.term_counter(term), self_limiting=state.pod_counters.covers(term, me.identity))
            for term in dict.fromkeys(me.anti_affinity)
        ]
        for term, who in state.pod_counters.holders.items():
            if state.pod_counters.covers(term, me.identity) and not (term in me.anti_affinity and who == [me.index]):
                found.append(Exclusion(state.pod_counters.holder_counter(term), self_limiting=term in me.anti_affinity))
        if me.ports:
            found.append(
                Exclusion(state.pod_counters.port_counter(me), self_limiting=ports_conflict(me.ports, me.ports))
            )
        return found

    def _make_protecting_rules(self) -> list[ProtectedSpread]:
        return [
            ProtectedSpread(counter, kept, max_skew, min_domains)
            for counter, kept, max_skew, min_domains in self.state.pod_counters.spreads_changed_by(self.pod_class)
            if (counter.watched is None or self.feasibility.are_watched(counter.watched))
            and not self._guarded_by_own_spread(counter, max_skew, min_domains)
        ]

    def _guarded_by_own_spread(self, counter: TopologyCounter, max_skew: int, min_domains: int) -> bool:
        return any(
            rule.counter is counter
            and rule.self_limiting
            and rule.max_skew <= max_skew
            and rule.min_domains >= min_domains
            for rule in self.spreads
        )

    def _make_affinity(self) -> AffinityRule | None:
        if not self.pod_class.affinity:
            return None
        mine = all(self.state.pod_counters.covers(term, self.pod_class.identity) for term in self.pod_class.affinity)
        return AffinityRule(self.state.pod_counters.affinity_counters(self.pod_class), wants_itself=mine)

    @property
    def protects_others(self) -> bool:
        return bool(self._protecting_rules)

    def active_rules(self) -> list[InterPodRule]:
        """Return the rules that apply at present."""
        if not self._protecting_rules:
            return self.rules
        silent = [r for r in self._protecting_rules if not (r.kept.total or r.foresees)]
        return [rule for rule in self.rules if rule not in silent] if silent else self.rules

    # ── moods: how strictly the rules are read ───────────────────────────────────────────────────────────────────────

    def foresee(self, *, foreseen: bool) -> bool:
        """Set whether zones are kept free for pods that are still to come. Return False if that makes no difference."""
        if not self._zonal_protection:
            return False
        for rule in self._zonal_protection:
            rule.foresees = foreseen
        self.foresees = foreseen
        return True

    def relaxations(self) -> list[tuple[int, ...]]:
        """By protecting rule: how many pods per domain may lose their spread. The relaxation that affects the fewest
        comes first.
        """
        by_rule = [sorted({0, *rule.kept.by_domain().tolist()}) for rule in self._protecting_rules]
        if prod(map(len, by_rule)) <= _MOST_WAYS:
            ways = sorted(product(*by_rule), key=sum)
        else:
            ways = [(number,) * len(by_rule) for number in sorted(set(chain(*by_rule)))[:_MOST_WAYS]]
        return [*ways, self.relax_fully()]

    def relax_fully(self) -> tuple[int, ...]:
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
        """Find the domains in which a node could be opened for such a pod: a spread must fill those before any other
        rises.
        """
        key = (shape, self.state.offerings.exhausted)
        if not self._zonal_spreads or key == self._openable_for:
            return
        self._openable_for = key
        for rule in self._zonal_spreads:
            openable = self.feasibility.openable(shape, rule.watched)
            if rule.openable is None or (rule.openable is not openable and (openable != rule.openable).any()):
                rule.openable = openable
                self._mask_at = ()

    def forget_openable(self) -> bool:
        """Ignore domains without a node, because none can be opened there. Return True if one was expected."""
        waited_for = [rule for rule in self._zonal_spreads if rule.domains_to_come()]
        for rule in waited_for:
            rule.openable = None
        if waited_for:
            self._openable_for = self._mask_at = ()
        return bool(waited_for)

    # ── now ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def mask(self) -> Mask:
        """By row: whether every rule except amounts accepts the class, as long as new nodes keep their current
        offerings.
        """
        state = self.state
        seen = sum([counter.version for counter in self.counters])
        only_in = self.affinity_rule.first_only_in if self.affinity_rule is not None else None
        at = (state.size, state.structure, seen, self.gives_up, self.foresees, self.expects_empty_hosts, only_in)
        if at != self._mask_at:
            mask = self.static() & state.alive[: state.size]
            for rule in self.active_rules():
                mask &= rule.rows(state.size)
            if self.affinity_rule is not None:
                mask &= self.affinity_rule.rows(state.size)
            self._mask, self._mask_at = mask, at
        return self._mask

    def open_rows(self) -> Mask:
        """Return `mask`, without empty new nodes for pods that trigger no scale-up: those use only what is left over."""
        mask = self.mask()
        if self.pod_class.triggers_scale_up:
            return mask
        first_new = self.state.first_new
        return np.concatenate((mask[:first_new], mask[first_new:] & self.state.in_use()))

    def stay_apart(self) -> bool:
        """Whether each pod of the class needs a host of its own and no other rule makes pods depend on each other."""
        self_limiting = [rule for rule in self.active_rules() if rule.self_limiting]
        size = self.state.size
        return (
            bool(self_limiting)
            and all(rule.topology.each_row_its_own(size) and rule.room_on_new_host() == 1 for rule in self_limiting)
            and self.affinity_rule is None
            and not self._zonal_spreads
            and not self.has_preferences
            and not self.counts_daemons
        )

    def growable(self) -> Mask:
        """By new node: whether every rule except amounts and offerings accepts one more pod."""
        state = self.state
        new = slice(state.first_new, state.size)
        sets = np.array([bool(members & self.lane_sets[lane]) for lane, members in state.sets], np.bool_)
        allowed = sets[state.set_of[new]] & state.alive[new]
        for rule in self.active_rules():
            allowed &= rule.rows(state.size)[new]
        if self.affinity_rule is not None:
            allowed &= self.affinity_rule.rows(state.size)[new]
        return allowed if self.pod_class.triggers_scale_up else allowed & state.in_use()

    def allows_lane(self, lane_index: int) -> bool:
        state = self.state
        lane = state.offerings.lanes[lane_index]
        return (
            bool(self.lane_sets[lane_index])
            and state.offerings.can_open(lane) > 0
            and all(
                rule.allows_new(lane.domains.get(rule.topology.key)) or rule.overlooks(int(lane.members[0]))
                for rule in self.active_rules()
            )
            and (
                self.affinity_rule is None
                or self.affinity_rule.allows_new(lane.domains)
                or state.daemons.satisfy_affinity(self.pod_class, lane)
            )
        )

    def relies_on_rows(self) -> bool:
        """Whether a placement that is valid now may become invalid when further nodes appear, empty or with their
        DaemonSet pods.
        """
        return self.counts_daemons or any(
            rule.limit() > rule.max_skew and (rule.topology.of_hosts or self._may_gain_domains(rule))
            for rule in self.spreads
        )

    def _may_gain_domains(self, rule: OwnSpreadRule) -> bool:
        watched = rule.watched
        watched.fit()
        return any(
            (value := lane.domains.get(rule.topology.key)) is not None
            and not watched.there[rule.topology.enter(value)]
            and bool(watched.offerings[lane.members[0]])
            for lane in self.state.offerings.lanes
        )

    def preference_scores(self) -> NDArray[np.float64]:
        """By row: the preference score, each kind of preference up to 100 as in kube-scheduler."""
        state = self.state
        preference_scores = np.zeros(state.size)
        if self._row_scores is not None:
            preference_scores[: state.first_new] += self._row_scores
        if self.offering_scores is not None:
            preference_scores[state.first_new :] += self.offering_scores[state.offering[state.first_new : state.size]]
        for weight, counter in self._soft:
            domains = counter.topology.domain[: state.size]
            counts = np.append(counter.by_domain(), 0)[domains]
            if weight:
                preference_scores += weight * (counts > 0)
            else:
                preference_scores -= np.where(domains < 0, 100, 100 * counts / max(1, int(counts.max(initial=0))))
        return preference_scores
