"""Generates CustomResourceDefinitions from the types that decode them.

Each struct becomes an object schema that preserves unknown fields, so that fields of other writers survive. What the type of a
field cannot express (bounds, a description, a CEL rule) is in its `Meta(description=…, extra_json_schema=…)`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from plimsoll.kube.types.quantity import Quantity
from plimsoll.kube.types.resources import Resource

OPEN: Mapping[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
_SIMPLE: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    Quantity: {"x-kubernetes-int-or-string": True},
}


class Column(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    type: str
    path: str


class Shape(NamedTuple):
    """The parts of a CRD that the types do not define."""

    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    columns: Sequence[Column]
    short_names: Sequence[str] = ()
    scale: Mapping[str, str] | None = None


def crd(kind: Resource[Any], shape: Shape) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": dict(shape.spec),
            "status": dict(shape.status),
        },
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **({"scale": dict(shape.scale)} if shape.scale else {})},
        "additionalPrinterColumns": [
            {"name": column.name, "type": column.type, "jsonPath": column.path} for column in shape.columns
        ],
    }
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        **({"shortNames": list(shape.short_names)} if shape.short_names else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def schema_of(kind: Any, *, instead: Mapping[str, Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """The schema of a Python type, with `more` added. `instead` maps field names to schemas that replace the derived ones."""
    return {**_schema(kind, instead or {}), **more}


def _schema(kind: Any, instead: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        found = _schema(inner, instead)
        for meta in metas:
            if isinstance(meta, msgspec.Meta):
                found |= {"description": meta.description} if meta.description else {}
                found |= meta.extra_json_schema or {}
        return found
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        properties = {
            field.encode_name: dict(instead.get(field.encode_name) or _schema(field.type, instead))
            for field in msgspec.structs.fields(kind)
        }
        return {"type": "object", "properties": properties, **OPEN}
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(kind) if part is not type(None))
        return _schema(inner, instead)
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0], instead)}
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return {"type": "object", "additionalProperties": _schema(get_args(kind)[1], instead)}
    return dict(_SIMPLE[kind])
