"""What the cluster's own objects say of pods, nodes and workloads: what every rule looks at, and all that it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plimsoll.config import Config
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    controller_of,
    holds,
    labels_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.cluster import Cluster
from plimsoll.kube.types.selectors import selects
from plimsoll.runtime.clock import Clock
from plimsoll.simulate.custom_kinds import VPSIE_NODES

CLASS = "karpenter.sh/capacity-type"
LEAVING = "plimsoll.dev/leaving"  # the operator's own taint
_WORKLOADS: Mapping[str, Kind] = {"Deployment": kinds.DEPLOYMENTS, "StatefulSet": kinds.STATEFULSETS}
# Taints by which a cloud says that the node is about to go, whatever anyone does.
_INTERRUPTED = ("aws-node-termination-handler/", "cloud.google.com/impending-node-termination")


class Sight:
    def __init__(self, cluster: Cluster, clock: Clock, config: Config) -> None:
        self.cluster = cluster
        self.storage = cluster.api.storage
        self.clock = clock
        self.config = config

    def workloads(self) -> Iterator[Json]:
        for kind in _WORKLOADS.values():
            yield from self.cluster.all(kind)

    def pods_of(self, workload: Json) -> list[Json]:
        """Neither terminating nor finished."""
        owners = [uid_of(workload)]
        owners += [uid_of(one) for one in self.storage.owned_by(kinds.REPLICASETS, uid_of(workload))]
        found = [pod for owner in owners for pod in self.storage.owned_by(kinds.PODS, owner)]
        return [pod for pod in found if not terminating(pod) and not finished(pod)]

    def ready_pods_of(self, workload: Json) -> list[Json]:
        return [pod for pod in self.pods_of(workload) if holds(pod, "Ready")]

    def missing(self, workload: Json) -> int:
        return max(0, replicas_of(workload) - len(self.ready_pods_of(workload)))

    def split(self, workload: Json) -> tuple[int, int]:
        """Pods on spot nodes and on others."""
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
            if selects(selector_of(at(budget, "spec", "selector", default={})), labels_of(pod))
        ]

    def node_of(self, pod: Json) -> Json | None:
        return self.storage.node(at(pod, "spec", "nodeName", default=""))

    def on_spot(self, pod: Json) -> bool:
        node = self.node_of(pod)
        return node is not None and is_spot(node)

    def interrupted(self, pod: Json) -> bool:
        """Whether a cloud is about to take the pod's node away: then it is rescued, whatever else is missing."""
        node = self.node_of(pod)
        return node is not None and any(
            taint["key"].startswith(_INTERRUPTED) for taint in at(node, "spec", "taints", default=[])
        )

    def sent_away_by_people(self, pod: Json) -> bool:
        """Whether someone deleted the VPSieNode of the pod's node: who says that a node must go has said so of its pods."""
        node = at(pod, "spec", "nodeName", default="")
        return any(
            terminating(one) and (at(one, "status", "nodeName", default="") or name_of(one)) == node
            for one in self.cluster.all(VPSIE_NODES)
        )


def is_spot(node: Json) -> bool:
    return labels_of(node).get(CLASS) == "spot"


def replicas_of(workload: Json) -> int:
    return int(at(workload, "spec", "replicas", default=1))


def finished(pod: Json) -> bool:
    return at(pod, "status", "phase", default="") in ("Succeeded", "Failed")


def never_ran(pod: Json) -> bool:
    return terminating(pod) or finished(pod) or at(pod, "status", "phase", default="Pending") == "Pending"


def must_leave_first(pod: Json) -> bool:
    """Whether a node with this pod on it may not be removed yet."""
    owner = controller_of(pod)
    daemon = owner is not None and owner["kind"] == "DaemonSet"
    return not (daemon or finished(pod) or "kubernetes.io/config.mirror" in annotations_of(pod))


def title(obj: Json) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}" if namespace_of(obj) else name_of(obj)
