"""`matchConditions`: the expressions that are understood, what they say of an object, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.placement.webhook_configuration import webhooks
from plimsoll.embedded_cluster.api.cel import EvaluationError, UnspokenError, evaluates_true, parse_expression


def says(text: str, **values: Any) -> bool:
    return evaluates_true(parse_expression(text, tuple(values)), values)


_OURS = webhooks({}, operator_namespace="home", timeout_seconds=1)[0]["matchConditions"][0]["expression"]


def owned(*owners: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": list(owners)} if owners else {}}


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        (owned({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}), True),
        (owned({"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}), True),
        (owned({"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}), False),
        (owned({"apiVersion": "apps/v1", "kind": "ReplicaSet"}), False),
        (owned({"apiVersion": "batch/v1", "kind": "Job", "controller": True}), False),
        (
            owned({"kind": "Node"}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}),
            True,
        ),
        (owned(), False),
    ],
)
def test_the_condition_that_our_own_webhook_registers(pod: dict[str, Any], asked: bool) -> None:
    assert says(_OURS, object=pod) is asked


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("a.b == 1 && !(a.b > 2)", True),
        ("a.c == 'x' || a.b < 0", True),
        ('a.c in ["y", "x"]', True),
        ("'b' in a", True),
        ("size(a.list) == 2 && a.list[1] == -5", True),
        ("a['c'].endsWith('x') && a.c.contains('x')", True),
        ("a.list.all(n, n >= -5) && !a.list.exists(n, n == 0)", True),
        ("has(a.c) && !has(a.missing)", True),
        ("a.flag == 1", False),  # a bool is no number
        ("a.missing == 1 || true", True),  # an error is overlooked where the other side decides
        ("false && a.missing == 1", False),
        (r"a.quoted == 'it\'s'", True),
    ],
)
def test_what_expressions_say(text: str, is_true: bool) -> None:
    values = {"b": 1, "c": "x", "list": [1, -5], "flag": True, "quoted": "it's"}
    assert says(text, a=values) is is_true


@pytest.mark.parametrize(
    "text", ["a.missing == 1", "a.b == 1 && a.missing", "a.b", "a.c < 1", "a.b.c", "a.list[7] == 1", "!a.b"]
)
def test_what_cannot_be_said_is_an_error(text: str) -> None:
    with pytest.raises(EvaluationError):
        says(text, a={"b": 1, "c": "x", "list": []})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "ends too early"),
        ("a.b ==", "ends too early"),
        ("a.b == 1 1", "'1' is not understood"),
        ("unknown.b == 1", "undeclared reference to 'unknown'"),
        ("a.list.map(n, n)", "the function 'map' is not understood"),
        ("a.b + 1 == 2", r"'\+ 1 == 2' is not understood"),
        ("a ? b : c", r"'\? b : c' is not understood"),
        ("has(a)", "has\\(\\) expects a field"),
    ],
)
def test_what_is_not_understood_is_named(text: str, named: str) -> None:
    with pytest.raises(UnspokenError, match=named):
        parse_expression(text, ("a",))
