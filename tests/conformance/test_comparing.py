"""What is compared where the real control plane is of another minor than the embedded cluster speaks as."""

from __future__ import annotations

import pytest

from plimsoll.embedded_cluster.api.discovery import VERSION
from tests.conformance.sides import EMBEDDED_MINOR, comparable, compared
from tools.controlplane.versions import newest_kubernetes

_OLDER = "1.34"


def _refusal(value: str, why: str = "field is immutable", code: int = 422) -> list[object]:
    text = f"Invalid value: {value}: {why}"
    causes = [{"field": "spec.selector", "message": text, "reason": "FieldValueInvalid"}]
    message = f"[spec.selector: {text}, spec.other: {text}]"
    return [{"what": "x", "code": code, "message": message, "causes": causes, "about": ["x", "", ""]}]


def test_the_embedded_cluster_speaks_as_the_newest_does() -> None:
    """Else nothing would be compared whole any more, and nobody would notice."""
    assert newest_kubernetes() == VERSION.removeprefix("v")


def test_a_value_may_be_quoted_otherwise_by_another_minor_alone() -> None:
    ours, theirs = _refusal('{"matchLabels":{"app":"x"}}'), _refusal('v1.LabelSelector{map[string]string{"app":"x"}}')
    assert not compared(comparable(ours, _OLDER), comparable(theirs, _OLDER))
    assert compared(comparable(ours, EMBEDDED_MINOR), comparable(theirs, EMBEDDED_MINOR))


@pytest.mark.parametrize("other", [_refusal("0x0", why="must be specified"), _refusal("0x0", code=400), []])
def test_all_else_must_be_equal(other: list[object]) -> None:
    assert compared(comparable(_refusal("0"), _OLDER), comparable(other, _OLDER))
