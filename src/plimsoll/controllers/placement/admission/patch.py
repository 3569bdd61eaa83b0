"""The JSON patch of an admitted pod: node affinity, tolerations and placement annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

from plimsoll.controllers.placement.annotations import CLASS, PLACED_BY, REASON, TOKEN, PlacementReason
from plimsoll.controllers.placement.capacity_class import ClassRules, with_class
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import NodeAffinity, NodeSelectorTerm, Toleration
from plimsoll.kube.types.meta import Labels, Metadata, Part, Requirement

Operation: TypeAlias = dict[str, Any]
_AFFINITY = "/spec/affinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class AdmittedAffinity(Part, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None


class AdmittedSpec(Part, frozen=True, gc=False):
    """The fields that admission reads or changes; the decoder skips the rest of the pod."""

    node_selector: Labels = field(default_factory=dict)
    affinity: AdmittedAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()


class AdmittedPod(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: AdmittedSpec = AdmittedSpec()

    @property
    def terms(self) -> tuple[NodeSelectorTerm, ...] | None:
        """The required node selector terms; None if the pod has no required node affinity."""
        affinity = self.spec.affinity.node_affinity if self.spec.affinity is not None else None
        return affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else None

    @property
    def matches_no_node(self) -> bool:
        """Whether all node selector terms are empty. An empty term matches nothing, and terms are ORed."""
        return self.terms is not None and not any(term.match_expressions or term.match_fields for term in self.terms)


class ClassAssignment(Struct, frozen=True):
    """The class of a pod and what the annotations say about it."""

    capacity_class: CapacityClass
    why: PlacementReason
    token: str
    placed_by: str


def patch_for(
    pod: AdmittedPod, assignment: ClassAssignment, *, rules: ClassRules, in_use: ClassRules
) -> list[Operation]:
    """On-demand requires every rule, spot the rules that this cluster's nodes follow.

    Idempotent: on reinvocation a pod that already has everything gets an empty patch.
    """
    wanted = assignment.capacity_class
    applied = in_use if wanted is CapacityClass.SPOT else rules
    return [
        *_affinity(pod, applied.requirements(wanted)),
        *_tolerations(pod, applied.tolerations(wanted)),
        *_annotations(pod.metadata.annotations, assignment),
    ]


def _affinity(pod: AdmittedPod, alternatives: tuple[tuple[Requirement, ...], ...]) -> list[Operation]:
    own = pod.terms or ()
    done = [term for term in own if any(set(wanted) <= set(term.match_expressions) for wanted in alternatives)]
    left = [term for term in own if term not in done]
    if done and not any(term.match_expressions or term.match_fields for term in left):
        return []
    terms = [*(builtins(term) for term in done), *with_class(left, alternatives)]
    required = {"nodeSelectorTerms": terms}
    if pod.spec.affinity is None:
        return [_add(_AFFINITY, {"nodeAffinity": {_REQUIRED: required}})]
    if pod.spec.affinity.node_affinity is None:
        return [_add(f"{_AFFINITY}/nodeAffinity", {_REQUIRED: required})]
    return [_add(f"{_AFFINITY}/nodeAffinity/{_REQUIRED}", required)]


def _tolerations(pod: AdmittedPod, wanted: tuple[Toleration, ...]) -> list[Operation]:
    missing = [builtins(toleration) for toleration in wanted if toleration not in pod.spec.tolerations]
    if not missing:
        return []
    if not pod.spec.tolerations:
        return [_add("/spec/tolerations", missing)]
    return [_add("/spec/tolerations/-", toleration) for toleration in missing]


def _annotations(held: Labels, assignment: ClassAssignment) -> list[Operation]:
    wanted = {
        CLASS: assignment.capacity_class.value,
        REASON: assignment.why.value,
        PLACED_BY: assignment.placed_by,
        TOKEN: assignment.token,
    }
    if not held:
        return [_add("/metadata/annotations", wanted)]
    return [
        _add(f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}", value)
        for key, value in wanted.items()
        if held.get(key) != value
    ]


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}
