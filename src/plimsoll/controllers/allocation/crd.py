"""The CustomResourceDefinition of `WekaContainer`, for clusters that have none.

The fields that are read here have their types; all others are kept as they are, in spec and in status, so that objects of
the operator that owns the kind pass unharmed. Bounds are left out on purpose: an object that is refused when someone else
updates it would stop him, where a condition that names the field stops nobody.
"""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.types import ContainerSpec, ContainerStatus, VirtualDrive
from plimsoll.kube.types import crd_schema

_CONDITION = {name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")}
_COLUMNS = (
    crd_schema.Column("Mode", "string", ".spec.mode"),
    crd_schema.Column("Node", "string", ".spec.nodeAffinity"),
    crd_schema.Column("Allocated", "string", '.status.conditions[?(@.type=="Allocated")].status'),
    crd_schema.Column("Port", "integer", ".status.allocations.wekaPort"),
    crd_schema.Column("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> dict[str, Any]:
    # Lists whose entries are kept as they were written, so that their type says nothing.
    conditions = {
        "type": "object", "properties": {**_CONDITION, "observedGeneration": {"type": "integer"}}, **crd_schema.OPEN
    }  # fmt: skip
    as_written = {
        "virtualDrives": crd_schema.schema_of(tuple[VirtualDrive, ...]),
        "conditions": {"type": "array", "items": conditions},
    }
    parts = crd_schema.schema_of(ContainerSpec), crd_schema.schema_of(ContainerStatus, instead=as_written)
    return crd_schema.crd(WEKA_CONTAINERS, crd_schema.Shape(*parts, _COLUMNS))
