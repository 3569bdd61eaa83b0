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

_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_CONDITION = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("Mode", "string", ".spec.mode"),
    ("Node", "string", ".spec.nodeAffinity"),
    ("Allocated", "string", '.status.conditions[?(@.type=="Allocated")].status'),
    ("Port", "integer", ".status.allocations.wekaPort"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> dict[str, Any]:
    kind = WEKA_CONTAINERS
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _schema(ContainerSpec),
            "status": _schema(ContainerStatus),
        },
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": path} for n, t, path in _COLUMNS],
    }
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


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
