"""Queries and copy-on-write changes on JSON documents; stored objects are never modified in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]
Path = tuple[str, ...]


def at(document: Mapping[str, Any], *path: str, default: Any = None) -> Any:
    """The value at a path of fields; `default` if it is missing or null."""
    value: Any = document
    for field in path:
        # Not `Mapping`: that check is ten times slower, and this is the most frequent call of the package.
        if not isinstance(value, dict):
            return default
        value = value.get(field)
    return default if value is None else value


def with_value(document: Json, path: Path, value: Any) -> Json:
    """A copy with another value at the path; everything else is shared with the original."""
    first, *rest = path
    if rest:
        inner = document.get(first)
        value = with_value(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**document, first: value}


def without_fields(document: Json, *fields: str) -> Json:
    return {field: value for field, value in document.items() if field not in fields}


def deep_copy(value: Any) -> Any:
    """A copy that shares nothing, for callers that modify it in place."""
    if isinstance(value, dict):
        return {field: deep_copy(inner) for field, inner in value.items()}
    if isinstance(value, list):
        return [deep_copy(inner) for inner in value]
    return value


def without_nulls(value: Any) -> Any:
    """The value without null fields, which Kubernetes treats as absent; the same object if there are none."""
    # Searching the encoded JSON finds out ten times faster than walking the document that there are none.
    return _without_nulls(value) if b"null" in msgspec.json.encode(value) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {field: _without_nulls(inner) for field, inner in value.items() if inner is not None}
        same = len(kept) == len(value) and all(kept[field] is inner for field, inner in value.items())
        return value if same else kept
    if isinstance(value, list):
        entries = [_without_nulls(inner) for inner in value]
        return value if all(one is other for one, other in zip(entries, value, strict=True)) else entries
    return value


def name_of(obj: Mapping[str, Any]) -> str:
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Mapping[str, Any]) -> str:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace


def uid_of(obj: Mapping[str, Any]) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def object_labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations


def terminating(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference with controller=true."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return None


def condition(obj: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") == name:
            found: Mapping[str, Any] = one
            return found
    return None


def condition_true(obj: Mapping[str, Any], name: str) -> bool:
    """Whether a condition exists with status True."""
    found = condition(obj, name)
    return found is not None and found.get("status") == "True"


def set_condition(obj: Mapping[str, Any], changed: Mapping[str, Any], now: str) -> list[Mapping[str, Any]]:
    """The conditions with one replaced; lastTransitionTime stays if the status stays."""
    before = condition(obj, changed["type"])
    same = before is not None and before.get("status") == changed["status"]
    moment = before.get("lastTransitionTime", now) if before is not None and same else now
    renewed = {**(before or {}), **changed, "lastTransitionTime": moment}
    conditions: list[Mapping[str, Any]] = at(obj, "status", "conditions", default=[])
    if before is None:
        return [*conditions, renewed]
    return [renewed if one.get("type") == changed["type"] else one for one in conditions]


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """The paths at which two documents differ; lists are compared as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for field in sorted({*before, *after}):
            yield from differences(before.get(field), after.get(field), (*path, field))
    elif before != after:
        yield path
