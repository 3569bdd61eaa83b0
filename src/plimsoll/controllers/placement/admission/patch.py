"""What a pod is given at admission, as a JSON patch: a node affinity, tolerations and its marks."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

from plimsoll.controllers.placement.annotations import CLASS, PLACED_BY, REASON, TOKEN, Why
from plimsoll.controllers.placement.capacity_class import ClassRules, with_class
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import Labels, Metadata, NodeAffinity, NodeSelectorTerm, Part, Requirement, Toleration

Operation: TypeAlias = dict[str, Any]
_AFFINITY = "/spec/affinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class AdmittedAffinity(Part, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None


class AdmittedSpec(Part, frozen=True, gc=False):
    """Only what an admission reads or changes: of ten kilobytes of a pod, the rest is passed over."""

    node_selector: Labels = field(default_factory=dict)
    affinity: AdmittedAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()


class AdmittedPod(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: AdmittedSpec = AdmittedSpec()

    @property
    def terms(self) -> tuple[NodeSelectorTerm, ...] | None:
        """Its required node selector terms; None where it has no such requirement."""
        affinity = self.spec.affinity.node_affinity if self.spec.affinity is not None else None
        return affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else None

    @property
    def matches_no_node(self) -> bool:
        """An empty term matches nothing, and terms are ORed: with nothing else, that is what its author asked for."""
        return self.terms is not None and not any(term.match_expressions or term.match_fields for term in self.terms)


class Marks(Struct, frozen=True):
    """What is written on the pod."""

    capacity_class: CapacityClass
    why: Why
    token: str
    placed_by: str


def patch_for(pod: AdmittedPod, marks: Marks, *, rules: ClassRules, in_use: ClassRules) -> list[Operation]:
    """On-demand is asked for by every rule there is, spot by those that this cluster's nodes follow.

    Given a pod that has it all already, it changes nothing: another webhook may make the API server ask again.
    """
    wanted = marks.capacity_class
    spoken = in_use if wanted is CapacityClass.SPOT else rules
    return [
        *_affinity(pod, spoken.requirements(wanted)),
        *_tolerations(pod, spoken.tolerations(wanted)),
        *_annotations(pod.metadata.annotations, marks),
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


def _annotations(held: Labels, marks: Marks) -> list[Operation]:
    wanted = {
        CLASS: marks.capacity_class.value,
        REASON: marks.why.value,
        PLACED_BY: marks.placed_by,
        TOKEN: marks.token,
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
