"""The kinds that a cluster has only if someone installed them: those of node groups and of storage containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.controllers.allocation.crd import crd as weka_container_crd
from plimsoll.controllers.nodegroups.crds import crds as node_group_crds
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.cluster import Cluster

_GROUP = "autoscaler.vpsie.com"
NODE_GROUPS = Kind(_GROUP, "v1alpha1", "nodegroups", "NodeGroup", status=True, scale=True, custom=True)
VPSIE_NODES = Kind(_GROUP, "v1alpha1", "vpsienodes", "VPSieNode", status=True, custom=True)
CONTAINERS = Kind("weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", status=True, custom=True)


async def install(cluster: Cluster, home: str) -> None:
    """Define all of them that are not there yet, and make the namespace where allocators keep their leases."""
    if cluster.api.storage.get(kinds.NAMESPACES, "", home) is None:
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": home}})
    definitions: list[Mapping[str, Any]] = [*node_group_crds(), weka_container_crd()]
    for definition in definitions:
        if cluster.api.storage.get(kinds.DEFINITIONS, "", definition["metadata"]["name"]) is None:
            await cluster.create(kinds.DEFINITIONS, definition)
