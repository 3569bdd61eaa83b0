"""Assertions on a report, such as `evictions<=10`, by which CI jobs judge a simulation. Called by `cli.simulate`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import fields

from plimsoll.simulate.report import Report

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_ASSERTION = re.compile(
    r"\s*(?P<field>[A-Za-z]+)\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<percent>%?)\s*"
)
_NOT_NUMBERS = {"writes", "prices", "controllers", "samples", "evictionsAtSeconds"}
FIELDS: Mapping[str, str] = {
    one.encode_name: one.name for one in fields(Report) if one.encode_name not in _NOT_NUMBERS
}  # by the names of `-o json`


class AssertionSyntaxError(ValueError):
    """An assertion that cannot be parsed."""


class ReportAssertion(Struct, frozen=True):
    text: str
    field: str  # as in `-o json`
    operator: str
    limit: float

    def failure(self, report: Report) -> str:
        """Why the assertion fails, empty if it holds. A cluster that has not settled counts as settled after infinity."""
        value = _value(report, FIELDS[self.field])
        return "" if _OPERATORS[self.operator](value, self.limit) else f"{self.text}: {self.field} is {value:g}"


def parse_assertion(text: str) -> ReportAssertion:
    """Parse `evictions<=10` or `spotShare>=60%`."""
    found = _ASSERTION.fullmatch(text)
    if found is None:
        raise AssertionSyntaxError(f'"{text}"; write it like evictions<=10, cost<5.5 or spotShare>=60%')
    if found["field"] not in FIELDS:
        raise AssertionSyntaxError(f'"{text}": "{found["field"]}" is none of {", ".join(FIELDS)}')
    limit = float(found["value"]) / (100 if found["percent"] else 1)
    return ReportAssertion(text.strip(), found["field"], found["operator"], limit)


def _value(report: Report, name: str) -> float:
    value = getattr(report, name)
    if value is None:
        return math.inf
    return float(len(value)) if isinstance(value, tuple) else float(value)
