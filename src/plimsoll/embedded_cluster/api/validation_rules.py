"""Evaluates `x-kubernetes-validations` of custom kinds, as far as `cel` supports the expressions.

Unsupported expressions are skipped; the tests on a real API server cover them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.embedded_cluster.api import cel
from plimsoll.embedded_cluster.api.status import FieldError


def rule_errors(value: Any, schema: Mapping[str, Any], where: str = "") -> Iterator[FieldError]:
    """An error for every rule that a value or a part of it violates."""
    for rule in schema.get("x-kubernetes-validations") or ():
        expression = _expression(rule.get("rule", ""))
        if expression is not None and not _holds(expression, value):
            said = rule.get("message") or f"failed rule: {rule['rule']}"
            yield FieldError("FieldValueInvalid", f"Invalid value: {said}", where)
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for field, inner in value.items():
            of = properties.get(field, others)
            if isinstance(of, Mapping):
                yield from rule_errors(inner, of, f"{where}.{field}".lstrip("."))
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for position, inner in enumerate(value):
            yield from rule_errors(inner, schema["items"], f"{where}[{position}]")


def _holds(expression: cel.Expression, value: Any) -> bool:
    try:
        return cel.evaluates_true(expression, {"self": value})
    except cel.EvaluationError:
        return False


@functools.cache
def _expression(rule: str) -> cel.Expression | None:
    try:
        return cel.parse_expression(rule, ("self",))
    except cel.UnspokenError:
        return None
