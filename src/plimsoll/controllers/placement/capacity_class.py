"""Capacity classes: which node labels mean spot, and the node affinity and tolerations that give a pod its class.

Admission and the capacity check build affinities here; everything that asks for the class of a node asks `ClassRules`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
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

    def in_use(self, labels: Container[str]) -> ClassRules:
        """The rules that some node of this cluster follows, by all labels that nodes carry; all rules where none is seen yet.

        Affinity terms are ORed and multiply with those that a pod has already: rules of other clouds would only swell it.
        """
        used = tuple(rule for rule in self.rules if rule.label in labels)
        return ClassRules(used or self.rules)

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
        """The label with which a pod template selects a class itself, or None."""
        keys = {rule.label for rule in self.rules}
        for label in spec.node_selector:
            if label in keys:
                return label
        affinity = spec.affinity.node_affinity if spec.affinity else None
        terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
        for term in terms:
            for requirement in term.match_expressions:
                if requirement.key in keys:
                    return requirement.key
        return None


class RulesInUse:
    """`ClassRules.in_use`, kept up to date as nodes change."""

    def __init__(self, rules: ClassRules) -> None:
        self._rules = rules
        self._nodes_with: dict[str, int] = dict.fromkeys((rule.label for rule in rules.rules), 0)
        self.current = rules

    def node_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        for node, step in ((before, -1), (after, 1)):
            if node is not None:
                for label in self._nodes_with.keys() & node.labels.keys():
                    self._nodes_with[label] += step
        self.current = self._rules.in_use({label for label, nodes in self._nodes_with.items() if nodes})


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
