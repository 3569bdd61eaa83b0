"""How many replicas there are of each class. A pod counts by the node it runs on, or by the class it was admitted with."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.placement.annotations import marked_class
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.disruption.interrupted_nodes import leaving
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Deployment, Pod, StatefulSet
from plimsoll.kube.types.resources import BY_OWNER, NODES, PODS, REPLICASETS


class Replica(Struct, frozen=True):
    """An active pod: neither terminating nor finished."""

    pod: Pod
    capacity_class: CapacityClass
    leaving: str | None = None  # the taint that says that its node is about to go

    @property
    def bound(self) -> bool:
        return self.pod.spec.node_name != ""

    @property
    def stays_ready(self) -> bool:
        return self.pod.ready and self.leaving is None


class Counts(Struct, frozen=True):
    """Replicas by class. Those on nodes that are about to go are included, and told beside."""

    spot: int = 0
    on_demand: int = 0
    leaving_spot: int = 0
    leaving_on_demand: int = 0
    ready: int = 0  # and not about to go
    ready_on_demand: int = 0  # the same

    @property
    def total(self) -> int:
        return self.spot + self.on_demand


def class_of(pod: Pod, view: View, rules: ClassRules) -> CapacityClass:
    """A bound pod has its node's class. Where that node is not in view (yet, or any more) its mark tells, as for a pod
    that waits for a node; a pod without a mark counts as on-demand."""
    node = view[NODES].get("", pod.spec.node_name) if pod.spec.node_name else None
    if node is not None:
        return rules.of_labels(node.labels)
    return marked_class(pod) or CapacityClass.ON_DEMAND


def active(pod: Pod) -> bool:
    return not pod.terminating and not pod.finished


def replicas(pods: Iterable[Pod], view: View, rules: ClassRules) -> tuple[Replica, ...]:
    """The active ones among `pods`, each with its class."""
    found = []
    for pod in pods:
        if not active(pod):
            continue
        node = view[NODES].get("", pod.spec.node_name) if pod.spec.node_name else None
        if node is not None:
            found.append(Replica(pod, rules.of_labels(node.labels), leaving(node)))
        else:
            found.append(Replica(pod, marked_class(pod) or CapacityClass.ON_DEMAND))
    return tuple(found)


def pods_of(workload: Deployment | StatefulSet, view: View) -> tuple[Pod, ...]:
    """Every pod of a workload, by the owners' UIDs; of a Deployment those of all its ReplicaSets."""
    if isinstance(workload, StatefulSet):
        return view[PODS].by(BY_OWNER, workload.uid)
    return tuple(
        pod
        for replica_set in view[REPLICASETS].by(BY_OWNER, workload.uid)
        for pod in view[PODS].by(BY_OWNER, replica_set.uid)
    )


def count(found: Iterable[Replica]) -> Counts:
    spot = on_demand = leaving_spot = leaving_on_demand = ready = ready_on_demand = 0
    for replica in found:
        is_spot = replica.capacity_class is CapacityClass.SPOT
        spot += is_spot
        on_demand += not is_spot
        if replica.leaving is not None:
            leaving_spot += is_spot
            leaving_on_demand += not is_spot
        elif replica.pod.ready:
            ready += 1
            ready_on_demand += not is_spot
    return Counts(spot, on_demand, leaving_spot, leaving_on_demand, ready, ready_on_demand)


def count_of_replica_set(uid: str, view: View, rules: ClassRules) -> Counts:
    """Within one ReplicaSet, as admission counts: during a rollout the old one's pods are on their way out."""
    return count(replicas(view[PODS].by(BY_OWNER, uid), view, rules))


def count_of_workload(workload: Deployment | StatefulSet, view: View, rules: ClassRules) -> Counts:
    """Over the whole workload, as drift and the minimum are counted."""
    return count(replicas(pods_of(workload, view), view, rules))
