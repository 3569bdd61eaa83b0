"""When is a node usable? Ready is not enough: agents still hold start-up taints, device plug-ins register late (S15).

`lifecycle` keeps a node in phase Joining until it is usable; until then it counts as coming.
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NodeGroup
from plimsoll.kube.types.core import Node, Taint
from plimsoll.providers.protocol import Offering

# Taints that Kubernetes, CNI and CSI agents, Karpenter and Cluster API put on new nodes and remove later.
STARTUP_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cluster.x-k8s.io/uninitialized",
        "node.cilium.io/agent-not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "karpenter.sh/unregistered",
    }
)
# Cluster Autoscaler's convention: any taint whose key begins with one of these.
STARTUP_PREFIXES = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")


# The kubelet reports these when it registers the node, or never; only resources of device plug-ins come late.
KUBELET_RESOURCES = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def startup_taints(node: Node, group: NodeGroup | None, settings: NodeGroupSettings) -> tuple[Taint, ...]:
    """The taints of a node that an agent is expected to remove. A taint of the group's own `taints` is none of them."""
    if not node.spec.taints:
        return ()
    lasting = {taint.key for taint in group.spec.taints} if group is not None else set[str]()
    named = {taint.key for taint in group.spec.startup_taints} if group is not None else set[str]()
    known = (STARTUP_TAINTS | named | set(settings.startup_taints)) - lasting
    return tuple(
        taint
        for taint in node.spec.taints
        if taint.key in known or (taint.key.startswith(STARTUP_PREFIXES) and taint.key not in lasting)
    )


def missing_resources(node: Node, offering: Offering | None) -> list[str]:
    """The resources that the offering promises and the node does not offer to pods yet."""
    if offering is None:
        return []
    allocatable = node.status.allocatable
    return [
        name
        for name, amount in offering.capacity.items()
        if name not in KUBELET_RESOURCES
        and amount.milli > 0
        and (name not in allocatable or allocatable[name].milli <= 0)
    ]


def unusable_because(
    node: Node, group: NodeGroup | None, offering: Offering | None, settings: NodeGroupSettings
) -> str:
    """Why pods cannot use the node yet; empty if they can."""
    if not node.ready:
        return "it is not ready"
    if taints := startup_taints(node, group, settings):
        return f"it still has the start-up taint {', '.join(taint.key for taint in taints)}"
    if missing := missing_resources(node, offering):
        return f"it does not offer {', '.join(missing)} yet"
    return ""


def taints_that_stay(nodes: Iterable[Node], group: NodeGroup, settings: NodeGroupSettings) -> tuple[Taint, ...]:
    """Start-up taints that every ready node of the group has, although each has had its time: a new node would have them, too."""
    common: dict[tuple[str, str], Taint] | None = None
    for node in nodes:
        if not node.ready:
            continue
        found = {(taint.key, taint.effect): taint for taint in startup_taints(node, group, settings)}
        common = found if common is None else {key: taint for key, taint in common.items() if key in found}
        if not common:
            return ()
    return tuple(common.values()) if common else ()
