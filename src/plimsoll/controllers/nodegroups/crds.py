"""The CustomResourceDefinitions of `NodeGroup` and `VPSieNode`.

The API server refuses an invalid object with a message that says what to write instead. Unknown fields are preserved.
"""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.nodegroups.types import (
    NODE_GROUPS,
    VPSIE_NODES,
    NodeGroupSpec,
    NodeGroupStatus,
    VPSieNodeSpec,
    VPSieNodeStatus,
)
from plimsoll.kube.types.crd_schema import Column, Shape, crd, schema_of

REQUIRED = (
    "minNodes", "maxNodes", "datacenterID", "resourceIdentifier", "project", "offeringIDs", "kubernetesVersion",
)  # fmt: skip

# Most messages are fixed sentences: one with a number in it would exceed the API server's cost limit for expressions.
_RULES: tuple[dict[str, str], ...] = (
    {
        "rule": "self.minNodes <= self.maxNodes",
        "message": "minNodes is above maxNodes; lower minNodes or raise maxNodes",
    },
    {"rule": "size(self.offeringIDs) > 0", "message": "offeringIDs is empty; name at least one offering"},
    {
        "rule": "!has(self.preferredInstanceType) || self.preferredInstanceType == '' || "
        "self.preferredInstanceType in self.offeringIDs",
        "message": "preferredInstanceType is none of offeringIDs; add it there, or prefer one of those",
        "messageExpression": "'preferredInstanceType is ' + self.preferredInstanceType + ', which is none of offeringIDs; "
        "add it there, or prefer one of those'",
    },
    {
        "rule": "!has(self.desiredNodes) || (self.minNodes <= self.desiredNodes && self.desiredNodes <= self.maxNodes)",
        "message": "desiredNodes must lie between minNodes and maxNodes; change those first, or choose a number between them",
    },
)


_INSTANCE_ID = {"type": "string", "description": "The provider's id of the machine, once it is ordered."}


def node_group_crds() -> list[dict[str, Any]]:
    return [node_group_crd(), vpsie_node_crd()]


def node_group_crd() -> dict[str, Any]:
    rules: dict[str, Any] = {"x-kubernetes-validations": [dict(rule) for rule in _RULES]}
    spec = schema_of(NodeGroupSpec, required=list(REQUIRED), **rules)
    columns = (
        Column("Min", "integer", ".spec.minNodes"),
        Column("Max", "integer", ".spec.maxNodes"),
        Column("Desired", "integer", ".status.desiredNodes"),
        Column("Current", "integer", ".status.currentNodes"),
        Column("Ready", "integer", ".status.readyNodes"),
        Column("Age", "date", ".metadata.creationTimestamp"),
    )
    scale = {"specReplicasPath": ".spec.desiredNodes", "statusReplicasPath": ".status.currentNodes"}
    status = schema_of(NodeGroupStatus, instead={"nodes": {"type": "array", "items": {"type": "string"}}})
    whole = crd(NODE_GROUPS, Shape(spec, status, columns, ("ng", "ngs"), scale))
    (version,) = whole["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["required"] = ["spec"]
    return whole


def vpsie_node_crd() -> dict[str, Any]:
    columns = (
        Column("Group", "string", ".spec.nodeGroupName"),
        Column("Phase", "string", ".status.phase"),
        Column("Node", "string", ".status.nodeName"),
        Column("Offering", "string", ".spec.instanceType"),
        Column("Machine", "string", ".spec.vpsieInstanceID"),
        Column("Age", "date", ".metadata.creationTimestamp"),
    )
    return crd(
        VPSIE_NODES,
        Shape(
            schema_of(VPSieNodeSpec, instead={"vpsieInstanceID": _INSTANCE_ID}),
            schema_of(VPSieNodeStatus),
            columns,
            short_names=("vn", "vns"),
        ),
    )
