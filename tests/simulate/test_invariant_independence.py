"""The invariant checker shares no rule with the operator that it judges."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plimsoll.simulate.invariants
from plimsoll.kube.codec import convert
from plimsoll.kube.types.meta import LabelSelector
from plimsoll.kube.types.selectors import selects
from plimsoll.simulate.invariants.selectors import selector_matches

PACKAGE = Path(plimsoll.simulate.invariants.__file__).parent
# Data types and configuration of the operator, and the embedded cluster's own API. Nothing here decides anything.
ALLOWED = (
    "plimsoll.config", "plimsoll.embedded_cluster.api", "plimsoll.embedded_cluster.cluster", "plimsoll.kube.types.resources",
    "plimsoll.providers.protocol", "plimsoll.runtime.clock", "plimsoll.runtime.decision", "plimsoll.simulate.custom_kinds",
    "plimsoll.simulate.invariants",
)  # fmt: skip
# The embedded API server matches selectors with the operator's implementation.
FORBIDDEN = ("plimsoll.embedded_cluster.api.selectors",)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_imports_no_rule_of_the_operator(path: Path):
    ours = [name for name in imports(path) if name.startswith("plimsoll")]
    assert [name for name in ours if not name.startswith(ALLOWED) or name.startswith(FORBIDDEN)] == []


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {"app": "web"}, False),
        ({}, {"app": "web"}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "web", "tier": "front"}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "db"}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, {"app": "db"}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, {}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, {}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, {"app": "web"}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {"app": ""}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {"app": "x"}, False),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
)
def test_selectors_match_as_in_kubernetes(selector: dict[str, Any] | None, labels: dict[str, str], *, matches: bool):
    assert selector_matches(selector, labels) is matches
    assert selects(convert(selector, LabelSelector) if selector is not None else None, labels) is matches
