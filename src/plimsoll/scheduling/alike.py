"""Classes that differ in labels only which nobody asks for are one.

Controllers put labels on pods that tell every revision or every pod apart (`pod-template-hash`, `pod-index`, the pod's own name). As
long as no selector mentions them, no rule sees a difference, and a plan should not either: it works out everything once a class.
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.scheduling.classes import Classes, PodClass


def standing_for(classes: Classes, indexes: Iterable[int]) -> dict[int, PodClass]:
    """By index of a class: the first of these that no selector of any class known so far tells apart from it."""
    mentioned = _labels_mentioned(classes.classes)
    first: dict[object, PodClass] = {}
    known = classes.classes
    return {index: first.setdefault(_as_seen(known[index], mentioned), known[index]) for index in indexes}


def _labels_mentioned(classes: Iterable[PodClass]) -> set[str]:
    selectors = {
        selector
        for one in classes
        for selector in (
            *(term.selector for term in (*one.affinity, *one.anti_affinity, *(p.term for p in one.preferences))),
            *(spread.selector for spread in (*one.spread, *one.soft_spread)),
        )
    }
    return {key for selector in selectors for key, *_ in selector or ()}


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
