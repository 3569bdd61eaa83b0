"""The CustomResourceDefinition of `WekaContainer`, for clusters that have none.

The fields that are read here have their types; all others are kept as they are, in spec and in status, so that objects of
the operator that owns the kind pass unharmed. Bounds are left out on purpose: an object that is refused when someone else
updates it would stop him, where a condition that names the field stops nobody.
"""

from __future__ import annotations

from typing import Any

from plimsoll.allocation.containers import ContainerSpec, ContainerStatus
from plimsoll.allocation.places import WEKA_CONTAINERS
from plimsoll.kube import schema

_COLUMNS = (
    schema.Column("Mode", "string", ".spec.mode"),
    schema.Column("Node", "string", ".spec.nodeAffinity"),
    schema.Column("Allocated", "string", '.status.conditions[?(@.type=="Allocated")].status'),
    schema.Column("Port", "integer", ".status.allocations.wekaPort"),
    schema.Column("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> dict[str, Any]:
    parts = schema.schema_of(ContainerSpec), schema.schema_of(ContainerStatus)
    return schema.crd(WEKA_CONTAINERS, schema.Shape(*parts, _COLUMNS))
