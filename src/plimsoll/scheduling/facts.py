"""What a snapshot keeps of nodes, claims and volumes: only what rules look at."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from plimsoll.kube.types import Labels, Node, NodeSelector, Taint
from plimsoll.kube.volumes import PersistentVolume, PersistentVolumeClaim
from plimsoll.scheduling.requests import allocatable

_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class NodeFacts(Struct, frozen=True):
    """What rules look at on a node."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]

    @classmethod
    def of(cls, node: Node) -> NodeFacts:
        return cls(
            node.name, node.labels, node.spec.taints, node.spec.unschedulable, allocatable(node.status.allocatable)
        )


class ClaimFacts(Struct, frozen=True):
    volume: str  # "" while unbound
    selected_node: str  # where an unbound claim's volume is about to be made
    leaving: bool

    @classmethod
    def of(cls, claim: PersistentVolumeClaim) -> ClaimFacts:
        return cls(claim.spec.volume_name, claim.annotations.get(_SELECTED_NODE, ""), claim.terminating)


class VolumeFacts(Struct, frozen=True):
    affinity: NodeSelector | None
    labels: Labels

    @classmethod
    def of(cls, volume: PersistentVolume) -> VolumeFacts:
        affinity = volume.spec.node_affinity
        return cls(affinity.required if affinity else None, volume.labels)
