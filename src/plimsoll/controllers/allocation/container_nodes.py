"""The WekaContainer resource, its index by node, and the nodes on which a container holds something."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.controllers.allocation.conditions import marker_of, proposal_of
from plimsoll.controllers.allocation.types import WekaCluster, WekaContainer
from plimsoll.kube.types.resources import Index, Resource


def nodes_of(container: WekaContainer) -> Iterable[str]:
    """Every node on which the container may hold something, including nodes of proposals that were not cleared."""
    proposal = proposal_of(container)
    return {
        name for name in (container.node_name, *holding_nodes(container), proposal.node if proposal else "") if name
    }


def holding_nodes(container: WekaContainer) -> Iterable[str]:
    """The nodes whose drives and ports `status.allocations` names.

    Our marker names the node. Allocations of others name none: if spec and status disagree, they count on both nodes.
    """
    if not container.allocated:
        return ()
    marker = marker_of(container)
    if marker is not None:
        return (marker.node,)
    return {name for name in (container.spec.node_affinity, container.status.node_affinity) if name}


BY_AFFINITY = Index("affinity", nodes_of)

WEKA_CONTAINERS = Resource(
    "weka.weka.io", "v1alpha1", "wekacontainers", "WekaContainer", WekaContainer, indexes=(BY_AFFINITY,),
    may_be_absent=True,
)  # fmt: skip
WEKA_CLUSTERS = Resource("weka.weka.io", "v1alpha1", "wekaclusters", "WekaCluster", WekaCluster, may_be_absent=True)
