"""Evaluates label selectors as the API server does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plimsoll.kube.types.meta import LabelSelector, Requirement

_RULES: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,  # an absent label is not in any list
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one expression matches. An unknown operator matches nothing."""
    rule = _RULES.get(requirement.operator)
    return rule is not None and rule(labels.get(requirement.key), requirement.values)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches these labels. None matches nothing; an empty selector matches everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_holds(requirement, labels) for requirement in selector.match_expressions
    )
