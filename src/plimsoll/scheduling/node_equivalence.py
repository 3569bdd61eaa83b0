"""Groups nodes into equivalence classes, so that a selector is evaluated once per class instead of once per node.

Only labels that some selector uses matter: most labels of a node are unique to it and never selected. The host name is
left out; the few pods that select a node by name are compared with every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.kube.types.core import NodeSelector, Taint, Toleration
from plimsoll.kube.types.meta import Labels
from plimsoll.scheduling.model import HOSTNAME
from plimsoll.scheduling.pod_equivalence import PodClass
from plimsoll.scheduling.rules import (
    UNSCHEDULABLE,
    mentions_node_name,
    node_selector_matches,
    node_term_matches,
    required_affinity_matches,
    tolerates,
    untolerated,
)
from plimsoll.scheduling.volumes import VolumeRules

Mask = NDArray[np.bool_]


class NodeTraits(Struct, frozen=True, gc=False):
    """What static rules read of an existing node, a coming node or an offering."""

    name: str  # "" for offerings, which no rule can name
    labels: Labels
    taints: tuple[Taint, ...]
    unschedulable: bool


def selector_keys(node_selector: Labels, required: NodeSelector | None) -> set[str]:
    keys = set(node_selector)
    if required is not None:
        keys.update(e.key for term in required.node_selector_terms for e in term.match_expressions)
    return keys


class NodeClasses:
    """A list of nodes, grouped into classes by the labels in `keys`."""

    def __init__(self, node_traits: Sequence[NodeTraits], keys: Iterable[str]) -> None:
        self.node_traits = node_traits
        self.keys = tuple(sorted(set(keys) - {HOSTNAME}))
        labels = [[place.labels.get(key) for place in node_traits] for key in self.keys]
        taints, unschedulable = [place.taints for place in node_traits], [place.unschedulable for place in node_traits]
        alike = list(zip(taints, unschedulable, *labels, strict=True))
        number_of = {one: number for number, one in enumerate(dict.fromkeys(alike))}
        of = [number_of[one] for one in alike] if len(number_of) > 1 else [0] * len(alike)
        self.of = np.array(of, np.intp)
        self.examples = [node_traits[of.index(node_class)] for node_class in range(len(number_of))]
        self._having: dict[str, Mask] = {}
        self.prefers_to_be_avoided = any(t.effect == "PreferNoSchedule" for p in self.examples for t in p.taints)

    def having(self, key: str) -> Mask:
        """Where the label exists."""
        if key not in self._having:
            self._having[key] = np.array([key in place.labels for place in self.node_traits], np.bool_)
        return self._having[key]

    def selected(self, pod_class: PodClass) -> Mask:
        """Where nodeSelector and required node affinity match; a spread with `nodeAffinityPolicy: Honor` counts only
        these.
        """

        def holds(place: NodeTraits) -> bool:
            return node_selector_matches(pod_class.node_selector, place.labels) and required_affinity_matches(
                pod_class.required, place.labels, place.name
            )

        if not pod_class.node_selector and pod_class.required is None:
            return np.ones(len(self.node_traits), np.bool_)
        by_name = mentions_node_name(pod_class.required) or HOSTNAME in selector_keys(
            pod_class.node_selector, pod_class.required
        )
        return self._each(holds) if by_name else self._each_class(holds)

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        return self._each_class(lambda place: untolerated(tolerations, place.taints) is None)

    def schedulable(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """Where neither a taint nor `spec.unschedulable` excludes the pod."""
        cordoned = tolerates(tolerations, UNSCHEDULABLE)
        return self._each_class(
            lambda place: untolerated(tolerations, place.taints) is None and (cordoned or not place.unschedulable)
        )

    def allowed_by_volumes(self, rules: VolumeRules) -> Mask:
        def allow(place: NodeTraits) -> bool:
            return rules.allow(place.labels, place.name)

        return self._each(allow) if rules.names_node or HOSTNAME in rules.label_keys else self._each_class(allow)

    def preferred(self, pod_class: PodClass) -> NDArray[np.int64] | None:
        """By node: weights of preferred node terms, minus a penalty for PreferNoSchedule taints that are not tolerated."""
        if not pod_class.preferred_nodes and not self.prefers_to_be_avoided:
            return None

        def score(place: NodeTraits) -> int:
            wanted = sum(
                p.weight for p in pod_class.preferred_nodes if node_term_matches(p.preference, place.labels, place.name)
            )
            avoided = sum(
                t.effect == "PreferNoSchedule" and not tolerates(pod_class.tolerations, t) for t in place.taints
            )
            return wanted - 100 * avoided

        terms = [p.preference for p in pod_class.preferred_nodes]
        by_name = any(t.match_fields or any(e.key == HOSTNAME for e in t.match_expressions) for t in terms)
        if by_name:
            return np.array([score(place) for place in self.node_traits], np.int64)
        return np.array([score(place) for place in self.examples], np.int64)[self.of]

    def _each(self, holds: object) -> Mask:
        return np.array([holds(place) for place in self.node_traits], np.bool_)  # type: ignore[operator]

    def _each_class(self, holds: object) -> Mask:
        if not self.node_traits:
            return np.zeros(0, np.bool_)
        return np.array([holds(place) for place in self.examples], np.bool_)[self.of]  # type: ignore[operator]


def static_keys(pod_class: PodClass, volumes: VolumeRules) -> set[str]:
    """Return the node labels that decide whether a class may run on a node or how much it prefers it."""
    keys = selector_keys(pod_class.node_selector, pod_class.required) | volumes.label_keys
    keys.update(e.key for p in pod_class.preferred_nodes for e in p.preference.match_expressions)
    return keys
