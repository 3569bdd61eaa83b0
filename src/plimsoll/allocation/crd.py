"""The CustomResourceDefinition of `WekaContainer`, for clusters that have none.

The fields that are read here have their types; all others are kept as they are, in spec and in status, so that objects of
the operator that owns the kind pass unharmed. Bounds are left out on purpose: an object that is refused when someone else
updates it would stop him, where a condition that names the field stops nobody.
"""

from __future__ import annotations

from typing import Any

from plimsoll.allocation.containers import ContainerSpec, ContainerStatus, VirtualDrive
from plimsoll.allocation.places import WEKA_CONTAINERS
from plimsoll.kube import schema

_CONDITION = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
_COLUMNS = (
    schema.Column("Mode", "string", ".spec.mode"),
    schema.Column("Node", "string", ".spec.nodeAffinity"),
    schema.Column("Allocated", "string", '.status.conditions[?(@.type=="Allocated")].status'),
    schema.Column("Port", "integer", ".status.allocations.wekaPort"),
    schema.Column("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> dict[str, Any]:
    # Lists whose entries are kept as they were written, so that their type says nothing.
    conditions = {
        "type": "object", "properties": {**_CONDITION, "observedGeneration": {"type": "integer"}}, **schema.OPEN
    }  # fmt: skip
    as_written = {
        "virtualDrives": schema.schema_of(tuple[VirtualDrive, ...]),
        "conditions": {"type": "array", "items": conditions},
    }
    parts = schema.schema_of(ContainerSpec), schema.schema_of(ContainerStatus, instead=as_written)
    return schema.crd(WEKA_CONTAINERS, schema.Shape(*parts, _COLUMNS))
