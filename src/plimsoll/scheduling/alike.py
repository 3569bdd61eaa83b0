"""Classes that differ in labels only which nobody asks for are one.

Controllers put labels on pods that tell every revision or every pod apart (`pod-template-hash`, `pod-index`, the pod's own name). As
long as no selector mentions them, no rule sees a difference, and a plan should not either: it works out everything once a class.
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.scheduling.classes import Classes, PodClass


def standing_for(classes: Classes, indexes: Iterable[int]) -> dict[int, PodClass]:
    """By index of a class: the first of these that no selector of any class known so far tells apart from it."""
    mentioned = classes.index.labels_mentioned()
    first: dict[object, PodClass] = {}
    known = classes.classes
    return {index: first.setdefault(_as_seen(known[index], mentioned), known[index]) for index in indexes}


def _as_seen(one: PodClass, mentioned: set[str]) -> object:
    """Everything about a class that a rule looks at."""
    labels = one.identity.labels
    return (
        one.namespace,
        tuple(sorted((key, labels[key]) for key in mentioned & labels.keys())),
        tuple(sorted(one.node_selector.items())),
        one.required,
        one.preferred_nodes,
        one.tolerations,
        one.affinity,
        one.anti_affinity,
        one.preferences,
        one.spread,
        one.soft_spread,
        one.ports,
        one.claims,
        one.gates,
        one.priority,
        one.leaving,
        one.stays,
    )
