"""Explains why a pod cannot run: the first constraint that fails, with figures. Called by `fits`, `plan` and `removal`.

Checks run in the order of kube-scheduler's filters. They read the same masks and counters that decide, so an
explanation cannot contradict the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from plimsoll.kube.types.core import Taint
from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.inter_pod_rules import Exclusion, OwnSpreadRule
from plimsoll.scheduling.model import Constraint, Unschedulable
from plimsoll.scheduling.offerings import Lane
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.pod_requests import format_amount
from plimsoll.scheduling.rules import UNSCHEDULABLE, selector_text, tolerates, untolerated
from plimsoll.scheduling.topology import Mask
from plimsoll.scheduling.volume_limits import driver_of


class ConstraintCheck(NamedTuple):
    """One constraint over all rows: where it holds, and the message for a row where it does not."""

    rule: Constraint
    allowed: Mask
    about: Callable[[int], str]  # row that fails → message
    brief: str  # summary for several nodes, such as "lack cpu"


def unschedulable_everywhere(constraints: ClassConstraints) -> Unschedulable | None:
    """Return a reason that no node could remove, if there is one."""
    if constraints.pod_class.gates:
        return Unschedulable(
            Constraint.GATED, f"the pod has scheduling gates: {', '.join(constraints.pod_class.gates)}"
        )
    if constraints.pod_class.unmodelled is not None:
        return constraints.pod_class.unmodelled
    return Unschedulable(Constraint.VOLUME, constraints.volumes.problem) if constraints.volumes.problem else None


def first_reason(constraints: ClassConstraints, shape: Shape, row: int) -> Unschedulable | None:
    for check in _checks(constraints, shape):
        if not check.allowed[row]:
            return Unschedulable(check.rule, check.about(row))
    return None


def no_existing_node(constraints: ClassConstraints, shape: Shape) -> Unschedulable:
    """Return why no existing or coming node accepts the pod: how many nodes each constraint excludes."""
    state = constraints.state
    count = state.first_new
    if not count:
        return Unschedulable(Constraint.NODE_UNKNOWN, "there are no nodes")
    left = state.alive[:count].copy()
    total = int(left.sum())
    found: list[tuple[int, Constraint, str]] = []
    for check in _checks(constraints, shape):
        refused = left & ~check.allowed[:count]
        number = int(refused.sum())
        if number:
            words = check.about(int(refused.argmax())) if number in (total, 1) else check.brief
            found.append((number, check.rule, words))
            left &= ~refused
    if not found:
        return Unschedulable(Constraint.NODE_UNKNOWN, "no node accepts pods at present")
    most = max(found, key=lambda entry: entry[0])
    if len(found) == 1:
        return Unschedulable(most[1], f"none of {_nodes(total)} is feasible: {most[2]}")
    parts = "; ".join(f"{number} {words}" if number > 1 else words for number, _, words in found)
    return Unschedulable(most[1], f"none of {_nodes(total)} is feasible: {parts}")


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


# ── one node ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _checks(constraints: ClassConstraints, shape: Shape) -> Iterator[ConstraintCheck]:
    """Yield every constraint in turn, evaluated only as far as needed."""
    state, me = constraints.state, constraints.pod_class
    node_classes = state.node_classes
    size = state.first_new
    name = state.names.__getitem__

    cordoned = (
        np.array([p.unschedulable for p in node_classes.examples], np.bool_)[node_classes.of]
        if size
        else np.zeros(0, np.bool_)
    )
    if tolerates(me.tolerations, UNSCHEDULABLE):
        cordoned &= False
    yield ConstraintCheck(
        Constraint.NODE_UNSCHEDULABLE,
        ~cordoned,
        lambda row: f"node {name(row)} is marked unschedulable",
        "are unschedulable",
    )

    def taint(row: int) -> str:
        found = untolerated(me.tolerations, node_classes.node_traits[row].taints)
        return f"node {name(row)} has the taint {_taint(found)}, which the pod does not tolerate" if found else ""

    yield ConstraintCheck(
        Constraint.TAINT, node_classes.tolerated(me.tolerations), taint, "have a taint that the pod does not tolerate"
    )
    yield ConstraintCheck(
        Constraint.NODE_SELECTOR,
        node_classes.selected(me),
        lambda row: f"node {name(row)} does not have the labels that the pod requires: {wanted_labels(me)}",
        "do not have the labels that the pod requires",
    )
    if me.ports:
        counter = state.pod_counters.port_counter(me)
        ports = ", ".join(str(port) for port in me.ports)
        yield ConstraintCheck(
            Constraint.HOST_PORT,
            counter.by_domain()[counter.topology.domain[:size]] == 0,
            lambda row: f"a host port that the pod requests ({ports}) is in use on node {name(row)}",
            f"have the host port in use ({ports})",
        )
    for resource, amount in shape:
        free = state.free[resource, :size]
        limit = Constraint.VOLUME_ATTACH_LIMIT if driver_of(state.classes.resources[resource]) else Constraint.RESOURCES
        yield ConstraintCheck(limit, free >= amount, *_lack(state, resource, amount))
    if me.claims:
        words = constraints.volumes.problem or "a volume of the pod is not reachable"
        yield ConstraintCheck(
            Constraint.VOLUME,
            node_classes.allowed_by_volumes(constraints.volumes),
            lambda row: words if constraints.volumes.problem else f"node {name(row)} cannot reach a volume of the pod",
            words if constraints.volumes.problem else "cannot reach a volume of the pod",
        )
    for spread in constraints.spreads:
        yield _spread_check(constraints, spread, size)
    if constraints.affinity_rule is not None:
        terms = " and ".join(f"{selector_text(t.selector)} by {t.topology_key}" for t in me.affinity)
        yield ConstraintCheck(
            Constraint.POD_AFFINITY,
            constraints.affinity_rule.rows(size),
            lambda row: f"no pod that matches the pod's affinity ({terms}) is in the domain of node {name(row)}",
            f"have no pod in their domain that matches the pod's affinity ({terms})",
        )
    yield from _anti_checks(constraints, size)


def _lack(state: PlanState, resource: int, amount: int) -> tuple[Callable[[int], str], str]:
    what = state.classes.resources[resource]
    free = state.free[resource, : state.first_new]
    most = int(free.max(initial=0))
    if driver := driver_of(what):
        needs = f"the pod needs {amount} of driver {driver}"
        return (
            lambda row: f"node {state.names[row]} can attach {max(0, int(free[row]))} more volumes, {needs}",
            f"can attach too few volumes ({needs}, at most {max(0, most)} more fit on a node)",
        )

    def about(row: int) -> str:
        if what == "pods":
            return f"node {state.names[row]} runs its maximum number of pods"
        have = format_amount(what, max(0, int(free[row])))
        return f"node {state.names[row]} has {have} of {what} free, the pod requests {format_amount(what, amount)}"

    if what == "pods":
        return about, "run their maximum number of pods"
    return (
        about,
        f"lack {what} (the pod requests {format_amount(what, amount)}, at most {format_amount(what, max(0, most))} is free)",
    )


def _spread_check(constraints: ClassConstraints, rule: OwnSpreadRule, size: int) -> ConstraintCheck:
    spread, topology, name = rule.spread, rule.topology, constraints.state.names.__getitem__
    words = f"pods {selector_text(spread.selector)} by {spread.topology_key}, maxSkew {spread.max_skew}"

    def about(row: int) -> str:
        domain = int(topology.domain[row])
        if domain < 0:
            return f"node {name(row)} has no label {spread.topology_key}, which the pod's topology spread requires"
        have = int(rule.counter.by_domain()[domain]) + spread.self_match
        lowest = rule.limit() - spread.max_skew
        where = topology.values[domain]
        return f"spread of {words}: {where} would have {have}, the lowest domain has {lowest}"

    return ConstraintCheck(Constraint.TOPOLOGY_SPREAD, rule.rows(size), about, f"would break the spread of {words}")


def _anti_checks(constraints: ClassConstraints, size: int) -> Iterator[ConstraintCheck]:
    state, me = constraints.state, constraints.pod_class
    own = {id(state.pod_counters.term_counter(term)): term for term in me.anti_affinity}
    for rule in constraints.rules:
        if not isinstance(rule, Exclusion) or rule.counter.key[0] == "ports":
            continue
        mine = id(rule.counter) in own
        term = own.get(id(rule.counter)) or rule.counter.key[1]
        what = selector_text(getattr(term, "selector", None))

        def about(row: int, rule: Exclusion = rule, what: str = what, *, mine: bool = mine) -> str:
            domain = rule.topology.values[int(rule.topology.domain[row])]
            if mine:
                return f"a pod that matches the pod's anti-affinity ({what}) is in {rule.topology.key}={domain}"
            return f"a pod in {rule.topology.key}={domain} has an anti-affinity that matches this pod ({what})"

        code = Constraint.POD_ANTI_AFFINITY if mine else Constraint.EXISTING_ANTI_AFFINITY
        brief = "have a pod in their domain that matches the pod's anti-affinity"
        yield ConstraintCheck(
            code,
            rule.rows(size),
            about,
            brief if mine else "have a pod in their domain whose anti-affinity matches this pod",
        )


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def wanted_labels(me: PodClass) -> str:
    parts = [f"{key}={value}" for key, value in me.node_selector.items()]
    if me.required is not None:
        terms = []
        for term in me.required.node_selector_terms:
            exprs = (*term.match_expressions, *term.match_fields)
            terms.append(" and ".join(f"{e.key} {e.operator} ({', '.join(e.values)})" for e in exprs) or "nothing")
        parts.append(" or ".join(terms) or "nothing")
    return ", ".join(parts)


# ── a template ───────────────────────────────────────────────────────────────────────────────────────────────────────


def no_new_node(constraints: ClassConstraints, shape: Shape, index: int) -> Unschedulable:
    """Return why no further node of a template would accept the pod, and why the planned ones do not."""
    state, me = constraints.state, constraints.pod_class
    offerings, node_classes = state.offerings, state.offering_classes
    template = offerings.templates[index]
    here = np.array(offerings.template_of, np.intp) == index
    if not here.any():
        return Unschedulable(Constraint.OFFERING, f"{template.name} has no offerings")
    found = untolerated(me.tolerations, template.taints)
    if found is not None:
        return Unschedulable(
            Constraint.TAINT,
            f"nodes of {template.name} have the taint {_taint(found)}, which the pod does not tolerate",
        )
    here &= node_classes.selected(me)
    if not here.any():
        labels = wanted_labels(me)
        return Unschedulable(
            Constraint.NODE_SELECTOR,
            f"no node of {template.name} would have the labels that the pod requires: {labels}",
        )
    here &= node_classes.allowed_by_volumes(constraints.volumes)
    if not here.any():
        return Unschedulable(Constraint.VOLUME, f"no node of {template.name} could reach the pod's volumes")
    for resource, amount in shape:
        most = int(offerings.caps[resource, here].max(initial=0))
        here &= offerings.caps[resource] >= amount
        if not here.any():
            what = state.classes.resources[resource]
            if driver := driver_of(what):
                words = (
                    f"the pod needs {amount} volumes of driver {driver} attached, a new node of {template.name} takes"
                )
                return Unschedulable(Constraint.VOLUME_ATTACH_LIMIT, f"{words} at most {max(0, most)}")
            asks = f"the pod requests {format_amount(what, amount)} of {what}"
            return Unschedulable(
                Constraint.RESOURCES,
                f"{asks}, a new node of {template.name} has at most {format_amount(what, max(0, most))}",
            )
    beside = state.daemons.allow(me)
    if not (here & beside).any():
        return _ruled_out_by_daemons(constraints, template.name, here)
    lanes = [
        lane
        for number, lane in enumerate(offerings.lanes)
        if lane.template == index and lane.holding(shape, constraints.lane_sets[number])
    ]
    if not lanes:
        return Unschedulable(
            Constraint.OFFERING, f"no offering of {template.name} that would hold the pod is available"
        )
    by_lane = [(lane, _ruled_out_in_lane(constraints, lane)) for lane in lanes]
    reasons_by_node = [unschedulable for _, unschedulable in by_lane if unschedulable is not None]
    if len(reasons_by_node) == len(lanes):
        rules = [unschedulable.rule for unschedulable in reasons_by_node]
        return max(reasons_by_node, key=lambda unschedulable: rules.count(unschedulable.rule))
    if offerings.nodes_left[index] == 0:
        may = f"{template.name} may add at most {_nodes(template.max_nodes or 0)}"
        return Unschedulable(Constraint.LIMIT, f"{may}, which are full or not feasible for this pod")
    if state.daemons and any(unschedulable is None and offerings.can_open(lane) for lane, unschedulable in by_lane):
        words = f"a further node of {template.name} would violate a constraint of a pod that is already placed"
        why = (
            "a DaemonSet pod of the node conflicts with its anti-affinity, or the node is an empty domain of its spread"
        )
        return Unschedulable(Constraint.EXISTING_ANTI_AFFINITY, f"{words}: {why}")
    return Unschedulable(Constraint.OFFERING, f"every offering of {template.name} that would hold the pod is exhausted")


def _ruled_out_by_daemons(constraints: ClassConstraints, template: str, here: Mask) -> Unschedulable:
    ports = constraints.state.daemons.with_ports_of(constraints.pod_class)
    if ports[here].all():
        wanted_ports = ", ".join(str(port) for port in constraints.pod_class.ports)
        words = f"a DaemonSet pod on every node of {template} uses a host port that the pod requests ({wanted_ports})"
        return Unschedulable(Constraint.HOST_PORT, words)
    return Unschedulable(
        Constraint.POD_ANTI_AFFINITY,
        f"an anti-affinity separates the pod from a DaemonSet pod on every node of {template}",
    )


def _ruled_out_in_lane(constraints: ClassConstraints, lane: Lane) -> Unschedulable | None:
    """Return the inter-pod rule that prevents a new node of the lane from helping, if there is one."""
    me = constraints.pod_class
    for rule in constraints.rules:
        key = rule.topology.key
        value = lane.domains.get(key)
        if rule.protects or rule.allows_new(value):
            continue
        where = f"{key}={value}" if value is not None else f"no label {key}"
        if isinstance(rule, OwnSpreadRule):
            words = f"the spread by {key} (maxSkew {rule.spread.max_skew}) allows no new node with {where}"
            return Unschedulable(Constraint.TOPOLOGY_SPREAD, words)
        if any(rule.counter is constraints.state.pod_counters.term_counter(term) for term in me.anti_affinity):
            return Unschedulable(
                Constraint.POD_ANTI_AFFINITY,
                f"a new node would have {where}, where a pod matches the pod's anti-affinity",
            )
        return Unschedulable(
            Constraint.EXISTING_ANTI_AFFINITY,
            f"a new node would have {where}, where the anti-affinity of a pod matches this pod",
        )
    if (
        constraints.affinity_rule is not None
        and not constraints.affinity_rule.allows_new(lane.domains)
        and not constraints.state.daemons.satisfy_affinity(me, lane)
    ):
        terms = " and ".join(f"{selector_text(t.selector)} by {t.topology_key}" for t in me.affinity)
        return Unschedulable(
            Constraint.POD_AFFINITY,
            f"no pod that matches the pod's affinity ({terms}) would be in the domain of a new node",
        )
    return None
