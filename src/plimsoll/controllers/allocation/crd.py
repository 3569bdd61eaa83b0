"""The CustomResourceDefinition of `WekaContainer`, for clusters that have none.

Fields that allocation reads have types; all other fields of spec and status are preserved, so objects of the storage operator
pass unchanged. The schema has no bounds on purpose: a bound would reject updates by others, a condition that names the field
does not.
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
    # These lists keep their entries as written, so their Python type has no schema.
    conditions = {
        "type": "object", "properties": {**_CONDITION, "observedGeneration": {"type": "integer"}}, **crd_schema.OPEN
    }  # fmt: skip
    as_written = {
        "virtualDrives": crd_schema.schema_of(tuple[VirtualDrive, ...]),
        "conditions": {"type": "array", "items": conditions},
        "addedDrives": {"type": "array", "items": {"type": "object", **crd_schema.OPEN}},
    }
    parts = crd_schema.schema_of(ContainerSpec), crd_schema.schema_of(ContainerStatus, instead=as_written)
    return crd_schema.crd(WEKA_CONTAINERS, crd_schema.Shape(*parts, _COLUMNS))
