"""The words that kube-scheduler's rules are written in: selectors, tolerations, host ports, affinity terms.

Written from the documentation and the behaviour of kube-scheduler 1.36, and shared with nothing under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from plimsoll.kube.types.core import (
    Namespace,
    Node,
    NodeSelector,
    Pod,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from plimsoll.kube.types.meta import LabelSelector, Requirement

# ── selectors ────────────────────────────────────────────────────────────────────────────────────────────────────────


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    if requirement.operator == "In":
        return value is not None and value in requirement.values
    if requirement.operator == "NotIn":
        return value is None or value not in requirement.values
    if requirement.operator == "Exists":
        return value is not None
    if requirement.operator == "DoesNotExist":
        return value is None
    if requirement.operator in ("Gt", "Lt"):
        if value is None or len(requirement.values) != 1:
            return False
        if not (_is_integer(value) and _is_integer(requirement.values[0])):
            return False
        if requirement.operator == "Gt":
            return int(value) > int(requirement.values[0])
        return int(value) < int(requirement.values[0])
    return False


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(text) < 2**63


def selector_covers(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(requirement_holds(requirement, labels) for requirement in selector.match_expressions)


def node_selector_matches(selector: NodeSelector, node: Node, *, with_fields: bool = True) -> bool:
    """Terms are ORed; a term without any requirement matches nothing; no term at all matches nothing."""
    for term in selector.node_selector_terms:
        if not term.match_expressions and not term.match_fields:
            continue
        if not all(requirement_holds(requirement, node.labels) for requirement in term.match_expressions):
            continue
        if with_fields and not all(_field_holds(requirement, node) for requirement in term.match_fields):
            continue
        return True
    return False


def _field_holds(requirement: Requirement, node: Node) -> bool:
    # Only metadata.name exists, only with In or NotIn, and only with one value; anything else makes the term void.
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return False
    if requirement.operator == "In":
        return node.name == requirement.values[0]
    return requirement.operator == "NotIn" and node.name != requirement.values[0]


def matches_node(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity together."""
    for key, value in pod.spec.node_selector.items():
        if node.labels.get(key) != value:
            return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return node_selector_matches(affinity.required, node)


# ── taints ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated_taints(pod: Pod, node: Node) -> list[Taint]:
    """Those that keep a pod from being scheduled; PreferNoSchedule only makes a node less welcome."""
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and not any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)
    ]


# ── host ports ───────────────────────────────────────────────────────────────────────────────────────────────────────


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> list[HostPort]:
    """Of the containers that run as long as the pod does: the main ones and the sidecars."""
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    return [
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in [*sidecars, *pod.spec.containers]
        for port in container.ports
        if port.host_port > 0
    ]


def ports_collide(one: HostPort, other: HostPort) -> bool:
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or "0.0.0.0" in (one.ip, other.ip)


# ── affinity terms ───────────────────────────────────────────────────────────────────────────────────────────────────


def required_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    return pod.spec.affinity.pod_affinity.required if pod.spec.affinity and pod.spec.affinity.pod_affinity else ()


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


def term_covers(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether a term of `owner` speaks of `other`; matchLabelKeys add what the API server would have written out."""
    if not term.namespaces and term.namespace_selector is None:
        in_scope = other.namespace == owner.namespace
    else:
        in_scope = other.namespace in term.namespaces
        if not in_scope and term.namespace_selector is not None and other.namespace in namespaces:
            in_scope = selector_covers(term.namespace_selector, namespaces[other.namespace].labels)
    if not in_scope or term.label_selector is None:
        return False
    for key in term.match_label_keys:
        if key in owner.labels and other.labels.get(key) != owner.labels[key]:
            return False
    for key in term.mismatch_label_keys:
        if key in owner.labels and other.labels.get(key) == owner.labels[key]:
            return False
    return selector_covers(term.label_selector, other.labels)


# ── topology spread ──────────────────────────────────────────────────────────────────────────────────────────────────


def hard_spread(pod: Pod) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]


def spread_requirements(constraint: TopologySpreadConstraint, owner: Pod) -> list[Requirement] | None:
    """What a counted pod must satisfy; None counts nobody."""
    if constraint.label_selector is None:
        return None
    by_key = [
        Requirement(key=key, operator="In", values=(owner.labels[key],))
        for key in constraint.match_label_keys
        if key in owner.labels
    ]
    equalities = constraint.label_selector.match_labels.items()
    by_value = [Requirement(key=key, operator="In", values=(value,)) for key, value in equalities]
    return [*by_key, *by_value, *constraint.label_selector.match_expressions]
