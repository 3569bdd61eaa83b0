"""The observed state: queries on the cluster's stored objects. Every invariant and the report read the cluster through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plimsoll.config import Config
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    condition_true,
    controller_of,
    name_of,
    namespace_of,
    object_labels,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.runtime.clock import Clock
from plimsoll.simulate.custom_kinds import VPSIE_NODES
from plimsoll.simulate.invariants.selectors import selector_matches

CLASS = "karpenter.sh/capacity-type"
DRAIN_TAINT = "plimsoll.dev/leaving"  # the operator's drain taint
_WORKLOADS: Mapping[str, ResourceKind] = {"Deployment": kinds.DEPLOYMENTS, "StatefulSet": kinds.STATEFULSETS}
# Taints that announce an interruption: the cloud terminates the node whatever the operator does.
_INTERRUPTED = ("aws-node-termination-handler/", "cloud.google.com/impending-node-termination")


class ObservedState:
    def __init__(self, cluster: EmbeddedCluster, clock: Clock, config: Config) -> None:
        self.cluster = cluster
        self.storage = cluster.api.storage
        self.clock = clock
        self.config = config

    def workloads(self) -> Iterator[Json]:
        for kind in _WORKLOADS.values():
            yield from self.cluster.all(kind)

    def pods_of(self, workload: Json) -> list[Json]:
        """Pods of a workload that are neither terminating nor finished."""
        owners = [uid_of(workload)]
        owners += [uid_of(one) for one in self.storage.owned_by(kinds.REPLICASETS, uid_of(workload))]
        found = [pod for owner in owners for pod in self.storage.owned_by(kinds.PODS, owner)]
        return [pod for pod in found if not terminating(pod) and not pod_finished(pod)]

    def ready_pods_of(self, workload: Json) -> list[Json]:
        return [pod for pod in self.pods_of(workload) if condition_true(pod, "Ready")]

    def missing(self, workload: Json) -> int:
        return max(0, replicas_of(workload) - len(self.ready_pods_of(workload)))

    def split(self, workload: Json) -> tuple[int, int]:
        """Number of pods on spot nodes and on other nodes."""
        on_nodes = [pod for pod in self.pods_of(workload) if at(pod, "spec", "nodeName", default="")]
        spot = sum(self.on_spot(pod) for pod in on_nodes)
        return spot, len(on_nodes) - spot

    def workload_of(self, pod: Json) -> Json | None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            found = self.storage.get(kinds.REPLICASETS, namespace_of(pod), owner["name"])
            owner = controller_of(found) if found is not None else None
        kind = _WORKLOADS.get(owner["kind"]) if owner is not None else None
        return (
            self.storage.get(kind, namespace_of(pod), owner["name"]) if kind is not None and owner is not None else None
        )

    def budgets_of(self, pod: Json) -> list[Json]:
        return [
            budget
            for budget in self.cluster.all(kinds.BUDGETS, namespace_of(pod))
            if selector_matches(at(budget, "spec", "selector", default={}), object_labels(pod))
        ]

    def node_of(self, pod: Json) -> Json | None:
        return self.storage.node(at(pod, "spec", "nodeName", default=""))

    def on_spot(self, pod: Json) -> bool:
        node = self.node_of(pod)
        return node is not None and is_spot(node)

    def interrupted(self, pod: Json) -> bool:
        """Whether the cloud is about to terminate the pod's node. Such a pod may be evicted whatever else is unavailable."""
        node = self.node_of(pod)
        return node is not None and any(
            taint["key"].startswith(_INTERRUPTED) for taint in at(node, "spec", "taints", default=[])
        )

    def node_deleted_by_user(self, pod: Json) -> bool:
        """Whether a user deleted the VPSieNode of the pod's node, which asks for the eviction of the node's pods."""
        node = at(pod, "spec", "nodeName", default="")
        return any(
            terminating(one) and (at(one, "status", "nodeName", default="") or name_of(one)) == node
            for one in self.cluster.all(VPSIE_NODES)
        )


def is_spot(node: Json) -> bool:
    return object_labels(node).get(CLASS) == "spot"


def replicas_of(workload: Json) -> int:
    return int(at(workload, "spec", "replicas", default=1))


def pod_finished(pod: Json) -> bool:
    return at(pod, "status", "phase", default="") in ("Succeeded", "Failed")


def pod_never_ran(pod: Json) -> bool:
    return terminating(pod) or pod_finished(pod) or at(pod, "status", "phase", default="Pending") == "Pending"


def blocks_node_removal(pod: Json) -> bool:
    """Whether a node must not be removed while it runs this pod."""
    owner = controller_of(pod)
    daemon = owner is not None and owner["kind"] == "DaemonSet"
    return not (daemon or pod_finished(pod) or "kubernetes.io/config.mirror" in annotations_of(pod))


def display_name(obj: Json) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}" if namespace_of(obj) else name_of(obj)
