"""The CustomResourceDefinitions of `NodeGroup` and `VPSieNode`.

What nobody could follow is refused at once, with a sentence that says what to write instead. Fields that we do not know are kept.
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

# A message with a number in it would exceed what the API server allows an expression to cost, so most are fixed sentences.
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


def crds() -> list[dict[str, Any]]:
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
    whole = crd(NODE_GROUPS, Shape(spec, schema_of(NodeGroupStatus), columns, ("ng", "ngs"), scale))
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
        VPSIE_NODES, Shape(schema_of(VPSieNodeSpec), schema_of(VPSieNodeStatus), columns, short_names=("vn", "vns"))
    )
