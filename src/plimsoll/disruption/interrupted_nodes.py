"""Nodes that are about to be removed. Their taints say so, whoever set them."""

from __future__ import annotations

from plimsoll.kube.types.core import Node

# The node goes, and soon: two minutes' notice from AWS, half a minute from others.
_CERTAIN = frozenset(
    {
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "cloud.google.com/impending-node-termination",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)
# Only considered, and often taken back after some minutes: nothing is moved there, and nobody is moved away for it.
_CONSIDERED = frozenset({"DeletionCandidateOfClusterAutoscaler", "plimsoll.dev/leaving"})


def leaving(node: Node) -> str | None:
    """The taint that says that this node is about to go, or None."""
    return next((taint.key for taint in node.spec.taints if taint.key in _CERTAIN), None)


def receives_nobody(node: Node) -> bool:
    """Whether nothing should be moved here because the node goes, or may."""
    return any(taint.key in _CERTAIN or taint.key in _CONSIDERED for taint in node.spec.taints)
