"""The CustomResourceDefinition of `WekaContainer`, for clusters that have none.

The fields that are read here have their types; all others are kept as they are, in spec and in status, so that objects of
the operator that owns the kind pass unharmed. Bounds are left out on purpose: an object that is refused when someone else
updates it would stop him, where a condition that names the field stops nobody.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

import msgspec

from plimsoll.allocation.containers import ContainerSpec, ContainerStatus, VirtualDrive
from plimsoll.allocation.places import WEKA_CONTAINERS
from plimsoll.kube import schema

_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_CONDITION = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
_COLUMNS = (
    schema.Column("Mode", "string", ".spec.mode"),
    schema.Column("Node", "string", ".spec.nodeAffinity"),
    schema.Column("Allocated", "string", '.status.conditions[?(@.type=="Allocated")].status'),
    schema.Column("Port", "integer", ".status.allocations.wekaPort"),
    schema.Column("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> dict[str, Any]:
    return schema.crd(WEKA_CONTAINERS, schema.Shape(_schema(ContainerSpec), _schema(ContainerStatus), _COLUMNS))


def _field(name: str, kind: Any) -> Mapping[str, Any]:
    match name:  # lists whose entries are kept as they were written, so that their type says nothing
        case "virtualDrives":
            return _schema(tuple[VirtualDrive, ...])
        case "conditions":
            properties = {**_CONDITION, "observedGeneration": {"type": "integer"}}
            return {"type": "array", "items": {"type": "object", "properties": properties, **_OPEN}}
        case _:
            return _schema(kind)


def _schema(kind: Any) -> Mapping[str, Any]:
    """The schema of a Python type: structs open to fields that they do not name."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        properties = {
            field.encode_name: _field(field.encode_name, field.type) for field in msgspec.structs.fields(kind)
        }
        return {"type": "object", "properties": properties, **_OPEN}
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(kind) if part is not type(None))
        return _schema(inner)
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    return {"type": {str: "string", int: "integer"}[kind]}
