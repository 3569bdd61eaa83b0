"""Label and field selectors as they stand in a URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, at, object_labels
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.status import bad_request
from plimsoll.kube.codec import convert
from plimsoll.kube.types.meta import LabelSelector, Requirement
from plimsoll.kube.types.selectors import selects

Matches = Callable[[Json], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_BOOLEANS = ("unschedulable", "hostNetwork")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s!=,()]+)$")


def label_requirements(text: str) -> tuple[Requirement, ...]:
    """`a=b,c!=d,e in (f,g),!h` as requirements; 400 where it is none."""
    return tuple(_label_requirement(part.strip(), text) for part in _parts(text))


def _label_requirement(part: str, whole: str) -> Requirement:
    if found := _SET.match(part):
        values = tuple(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], {"in": "In", "notin": "NotIn"}[found["operator"]], values)
    if found := _EQUAL.match(part):
        return Requirement(found["key"], "NotIn" if found["operator"] == "!=" else "In", (found["value"],))
    if found := _EXISTS.match(part):
        return Requirement(found["key"], "DoesNotExist" if found["no"] else "Exists")
    raise bad_request(f"unable to parse requirement: {part!r} in the label selector {whole!r} is not understood")


def _parts(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    return [part for part in re.split(r",(?![^()]*\))", text) if part.strip()]


def matcher(kind: ResourceKind, labels: str, fields: str) -> Matches | None:
    """What a request selects; None where that is everything."""
    wanted = LabelSelector(match_expressions=label_requirements(labels)) if labels else None
    terms = [_field_term(kind, part.strip()) for part in _parts(fields)] if fields else []
    if wanted is None and not terms:
        return None

    def matches(obj: Json) -> bool:
        if wanted is not None and not selects(wanted, object_labels(obj)):
            return False
        return all((_field(obj, path) == value) is equal for path, value, equal in terms)

    return matches


def _field_term(kind: ResourceKind, part: str) -> tuple[tuple[str, ...], str, bool]:
    found = _EQUAL.match(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    name = found["key"]
    known = {"metadata.name": ("metadata", "name"), **kind.selectable}
    if kind.namespaced:
        known["metadata.namespace"] = ("metadata", "namespace")
    if name not in known and not kind.selectable:
        listed = ", ".join(f'"{one}"' for one in known)
        raise bad_request(f'"{name}" is not a known field selector: only {listed}')
    if name not in known:
        raise bad_request(f"field label not supported: {name}")
    return known[name], found["value"], found["operator"] != "!="


def _field(obj: Json, path: tuple[str, ...]) -> str:
    value = at(obj, *path, default=False if path[-1] in _BOOLEANS else "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def selector_of(selector: Mapping[str, Any] | None) -> LabelSelector | None:
    """A selector as it stands in an object."""
    return None if selector is None else convert(selector, LabelSelector)
