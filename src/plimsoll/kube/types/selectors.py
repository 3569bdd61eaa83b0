"""Label selectors, as the API server evaluates them."""

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
    """Whether one expression holds. An operator that does not exist holds never: unknown data selects nothing."""
    rule = _RULES.get(requirement.operator)
    return rule is not None and rule(labels.get(requirement.key), requirement.values)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector covers these labels. No selector covers nothing; an empty one covers everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_holds(requirement, labels) for requirement in selector.match_expressions
    )
