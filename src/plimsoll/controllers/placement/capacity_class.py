"""Capacity classes: which node labels mean spot, and the node affinity and tolerations that give a pod its class.

Admission and the capacity check build affinities here; everything that asks for the class of a node asks `ClassRules`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import NodeSelectorTerm, PodSpec, Toleration
from plimsoll.kube.types.meta import KubeObject, Labels, Requirement


class ClassRule(Struct, frozen=True):
    """How one provider labels its nodes. A node is spot if the spot value of any rule matches, else on-demand."""

    label: str
    spot: tuple[str, ...]
    on_demand: tuple[str, ...] = ()
    taint: bool = False  # spot nodes carry a NoSchedule taint of the same key and value

    def allowed_by(self, requirement: Requirement) -> set[CapacityClass]:
        """The classes of the nodes that can meet a requirement on this label. Without the label a node is on-demand."""
        values = set(requirement.values)
        match requirement.operator:
            case "In":
                spot, on_demand = not values.isdisjoint(self.spot), not values <= set(self.spot)
            case "NotIn":
                spot, on_demand = not values >= set(self.spot), True
            case "Exists":
                spot, on_demand = True, bool(self.on_demand)
            case "DoesNotExist":
                spot, on_demand = False, True
            case _:
                spot = on_demand = False  # Gt and Lt compare numbers, which no class label holds
        allowed = ((CapacityClass.SPOT, spot), (CapacityClass.ON_DEMAND, on_demand))
        return {capacity_class for capacity_class, possible in allowed if possible}


DEFAULT_RULES = (
    ClassRule("karpenter.sh/capacity-type", ("spot",), ("on-demand", "reserved")),
    ClassRule("eks.amazonaws.com/capacityType", ("SPOT",), ("ON_DEMAND", "CAPACITY_BLOCK")),
    ClassRule("cloud.google.com/gke-spot", ("true",)),
    ClassRule("cloud.google.com/gke-preemptible", ("true",)),
    ClassRule("kubernetes.azure.com/scalesetpriority", ("spot",), ("regular",), taint=True),
    ClassRule("spotinst.io/node-lifecycle", ("spot",), ("od",)),
)


class ClassRules(Struct, frozen=True):
    """The rules in force."""

    rules: tuple[ClassRule, ...] = DEFAULT_RULES

    def of_labels(self, labels: Labels) -> CapacityClass:
        for rule in self.rules:  # hot path, once per pod and decision: any() takes twice as long
            if labels.get(rule.label) in rule.spot:
                return CapacityClass.SPOT
        return CapacityClass.ON_DEMAND

    def in_use(self, nodes: Iterable[Labels]) -> ClassRules:
        """The rules whose label some node has, by the labels of all nodes; all rules while no node is spot.

        Affinity terms are ORed and multiply with those of the pod: rules of other clouds would only swell it. While no spot node
        exists nobody knows which autoscaler will provide one: with on-demand nodes of an EKS managed group in view, the spot
        value of that group alone is one that Karpenter cannot provide.
        """
        seen: set[str] = set()
        any_spot = False
        for labels in nodes:
            seen |= labels.keys()
            any_spot = any_spot or self.of_labels(labels) is CapacityClass.SPOT
        return self.narrowed_to(seen) if any_spot else self

    def narrowed_to(self, labels: Container[str]) -> ClassRules:
        """The rules with one of these labels."""
        return ClassRules(tuple(rule for rule in self.rules if rule.label in labels))

    def requirements(self, wanted: CapacityClass) -> tuple[tuple[Requirement, ...], ...]:
        """The requirements of a class: alternatives (ORed), each of requirements that must all hold.

        On-demand is the absence of every spot value, so that unlabelled nodes count as on-demand.
        """
        if wanted is CapacityClass.SPOT:
            return tuple((Requirement(rule.label, "In", rule.spot),) for rule in self.rules)
        return (tuple(Requirement(rule.label, "NotIn", rule.spot) for rule in self.rules),)

    def tolerations(self, wanted: CapacityClass) -> tuple[Toleration, ...]:
        if wanted is CapacityClass.ON_DEMAND:
            return ()
        return tuple(
            Toleration(rule.label, "Equal", value, "NoSchedule")
            for rule in self.rules
            if rule.taint
            for value in rule.spot
        )

    def chosen_by(self, spec: PodSpec) -> str | None:
        """The label with which a pod template selects a class itself, or None.

        A nodeSelector with such a label selects one. A required node affinity does if its terms, which are ORed, leave only one
        class: `In [spot, on-demand]` and `Exists` mention the label and select nothing.
        """
        by_label = {rule.label: rule for rule in self.rules}
        for label in spec.node_selector:
            if label in by_label:
                return label
        affinity = spec.affinity.node_affinity if spec.affinity else None
        terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
        left: set[CapacityClass] = set()
        selecting: str | None = None
        for term in terms:
            if not (term.match_expressions or term.match_fields):
                continue  # an empty term matches no node
            of_term = set(CapacityClass)
            for requirement in term.match_expressions:
                if (rule := by_label.get(requirement.key)) is not None and (
                    allowed := rule.allowed_by(requirement)
                ) != of_term:
                    of_term &= allowed
                    selecting = selecting or requirement.key
            left |= of_term
        return selecting if left != set(CapacityClass) else None


class RulesInUse:
    """`ClassRules.in_use`, kept up to date as nodes change."""

    def __init__(self, rules: ClassRules) -> None:
        self._rules = rules
        self._nodes_with: dict[str, int] = dict.fromkeys((rule.label for rule in rules.rules), 0)
        self._spot_nodes = 0
        self.current = rules

    def node_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        for node, step in ((before, -1), (after, 1)):
            if node is not None:
                for label in self._nodes_with.keys() & node.labels.keys():
                    self._nodes_with[label] += step
                if self._rules.of_labels(node.labels) is CapacityClass.SPOT:
                    self._spot_nodes += step
        used = {label for label, nodes in self._nodes_with.items() if nodes}
        self.current = self._rules.narrowed_to(used) if self._spot_nodes else self._rules


def with_class(
    terms: Sequence[NodeSelectorTerm], alternatives: Sequence[tuple[Requirement, ...]]
) -> list[dict[str, Any]]:
    """`terms_with_class` as plain data for a JSON patch."""
    return [builtins(term) for term in terms_with_class(terms, alternatives)]


def terms_with_class(
    terms: Sequence[NodeSelectorTerm], alternatives: Sequence[tuple[Requirement, ...]]
) -> tuple[NodeSelectorTerm, ...]:
    """Every node selector term of the pod combined with every alternative.

    Terms are ORed and the requirements within one are ANDed, so the result is the product. An empty term matches no node;
    extended it would match some, so it is dropped. No terms at all mean any node. ValueError if every term is empty: such a pod
    matches no node, and must not start to match one.
    """
    usable = [term for term in terms if term.match_expressions or term.match_fields]
    if terms and not usable:
        raise ValueError("every node selector term is empty: the pod matches no node")
    return tuple(
        NodeSelectorTerm((*term.match_expressions, *alternative), term.match_fields)
        for term, alternative in product(usable or [NodeSelectorTerm()], alternatives)
    )
