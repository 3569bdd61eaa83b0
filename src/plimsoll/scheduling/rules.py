"""Rules of kube-scheduler about one pod and one node, or one pod and a label selector, as plain functions.

A new constraint between a pod and a node starts here and is applied in `static_feasibility`; one that depends on other pods
belongs in `inter_pod_rules` and `class_constraints`. What is not modelled is refused: see `Constraint` in `model`.

Sources: the plugins NodeAffinity, NodeUnschedulable, TaintToleration, NodePorts and the label selectors of Kubernetes
1.37.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from plimsoll.kube.types.core import NodeSelector, NodeSelectorTerm, Taint, Toleration
from plimsoll.kube.types.meta import Labels, LabelSelector, Requirement

HARD_EFFECTS = ("NoSchedule", "NoExecute")
# the taint equivalent of `kubectl cordon`
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_INTEGER = re.compile(r"[+-]?\d{1,19}")
_INT64 = range(-(2**63), 2**63)


# ── node selectors ───────────────────────────────────────────────────────────────────────────────────────────────────


def node_selector_matches(node_selector: Labels, labels: Labels) -> bool:
    return all(labels.get(key) == value for key, value in node_selector.items())


def required_affinity_matches(required: NodeSelector | None, labels: Labels, name: str) -> bool:
    """Terms are ORed. No selector matches every node; a selector without a usable term matches none."""
    return required is None or any(node_term_matches(term, labels, name) for term in required.node_selector_terms)


def node_term_matches(term: NodeSelectorTerm, labels: Labels, name: str) -> bool:
    """Expressions are ANDed. An empty term matches nothing, and so does one that kube-scheduler could not parse."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_expression_holds(expression, labels) for expression in term.match_expressions) and all(
        _field_holds(expression, name) for expression in term.match_fields
    )


def _expression_holds(expression: Requirement, labels: Labels) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return bool(expression.values) and value not in expression.values
        case "Exists":
            return not expression.values and value is not None
        case "DoesNotExist":
            return not expression.values and value is None
        case "Gt" | "Lt":
            if value is None or len(expression.values) != 1:
                return False
            have, limit = _int64(value), _int64(expression.values[0])
            if have is None or limit is None:
                return False
            return have > limit if expression.operator == "Gt" else have < limit
        case _:
            return False


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if value in _INT64 else None


def _field_holds(expression: Requirement, name: str) -> bool:
    """`metadata.name` is the only field; exactly one value is allowed."""
    if len(expression.values) != 1 or expression.operator not in ("In", "NotIn"):
        return False
    equal = (name if expression.key == "metadata.name" else "") == expression.values[0]
    return equal if expression.operator == "In" else not equal


def mentions_node_name(required: NodeSelector | None) -> bool:
    return required is not None and any(term.match_fields for term in required.node_selector_terms)


# ── taints ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Numeric comparison (Gt and Lt) is an alpha feature, off by default: such a toleration tolerates nothing."""
    return any(
        (not toleration.effect or toleration.effect == taint.effect)
        and (not toleration.key or toleration.key == taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def untolerated(tolerations: tuple[Toleration, ...], taints: Iterable[Taint]) -> Taint | None:
    """Return the first hard taint that is not tolerated."""
    return next((t for t in taints if t.effect in HARD_EFFECTS and not tolerates(tolerations, t)), None)


# ── host ports ───────────────────────────────────────────────────────────────────────────────────────────────────────


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int

    def __str__(self) -> str:
        where = "" if self.ip == "0.0.0.0" else f"{self.ip}:"  # noqa: S104 - a wildcard in data, nothing is bound here
        return f"{where}{self.port}/{self.protocol}"


def ports_conflict(one: Iterable[HostPort], other: tuple[HostPort, ...]) -> bool:
    """The wildcard address conflicts with every address, a specific one with itself and the wildcard."""
    return any(
        a.port == b.port and a.protocol == b.protocol and (a.ip == b.ip or "0.0.0.0" in (a.ip, b.ip))  # noqa: S104
        for a in one
        for b in other
    )


# ── selectors over pods ──────────────────────────────────────────────────────────────────────────────────────────────

# (key, operator, sorted values): equal selectors are equal tuples, whatever their written order.
Expression: TypeAlias = tuple[str, str, tuple[str, ...]]
Expressions: TypeAlias = tuple[Expression, ...]


def selector_expressions(selector: LabelSelector | None) -> Expressions | None:
    """Return a selector in a comparable form. None selects nothing; an empty tuple selects everything."""
    if selector is None:
        return None
    parts: list[Expression] = [(key, "In", (value,)) for key, value in selector.match_labels.items()]
    parts += [(e.key, e.operator, tuple(sorted(e.values))) for e in selector.match_expressions]
    return tuple(sorted(set(parts)))


def narrowed(
    selector: Expressions | None, labels: Labels, same: Iterable[str], different: Iterable[str] = ()
) -> Expressions | None:
    """Return the selector merged with `matchLabelKeys` and `mismatchLabelKeys` of a pod.

    The API server writes them into the selector when it creates the pod (for spread constraints since 1.34; before that
    kube-scheduler did it), so this changes nothing for a pod read from the API. Keys that the pod does not carry are
    ignored.
    """
    if selector is None:
        return None
    more: list[Expression] = [(key, "In", (labels[key],)) for key in same if key in labels]
    more += [(key, "NotIn", (labels[key],)) for key in different if key in labels]
    return tuple(sorted({*selector, *more})) if more else selector


def expressions_match(selector: Expressions | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, operator, values in selector:
        value = labels.get(key)
        if operator == "In":
            if value not in values:
                return False
        elif operator == "NotIn":
            if value in values:
                return False
        elif operator == "Exists":
            if value is None:
                return False
        elif operator == "DoesNotExist":
            if value is not None:
                return False
        else:
            return False
    return True


def selector_text(selector: Expressions | None) -> str:
    """Format a selector as on the command line."""
    if selector is None:
        return "nothing"
    if not selector:
        return "every pod"
    words = {"In": "in", "NotIn": "notin"}
    return ",".join(
        f"{key}={values[0]}" if operator == "In" and len(values) == 1
        else key if operator == "Exists"
        else f"!{key}" if operator == "DoesNotExist"
        else f"{key} {words.get(operator, operator)} ({','.join(values)})"
        for key, operator, values in selector
    )  # fmt: skip
