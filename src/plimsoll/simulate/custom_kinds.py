"""Custom resources that the operator's users install: NodeGroup, VPSieNode and WekaContainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.controllers.allocation.crd import crd as weka_container_crd
from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.cluster import EmbeddedCluster

_GROUP = "autoscaler.vpsie.com"
NODE_GROUPS = ResourceKind(_GROUP, "v1alpha1", "nodegroups", "NodeGroup", status=True, scale=True, custom=True)
VPSIE_NODES = ResourceKind(_GROUP, "v1alpha1", "vpsienodes", "VPSieNode", status=True, custom=True)
CONTAINERS = ResourceKind("weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", status=True, custom=True)


async def install_custom_kinds(cluster: EmbeddedCluster, home: str) -> None:
    """Create the CustomResourceDefinitions that are missing, and `home`, the namespace of the allocation leases."""
    if cluster.api.storage.get(kinds.NAMESPACES, "", home) is None:
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": home}})
    definitions: list[Mapping[str, Any]] = [*node_group_crds(), weka_container_crd()]
    for definition in definitions:
        if cluster.api.storage.get(kinds.DEFINITIONS, "", definition["metadata"]["name"]) is None:
            await cluster.create(kinds.DEFINITIONS, definition)
