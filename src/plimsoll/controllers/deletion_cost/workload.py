"""Everything that a decision about one Deployment is made from, gathered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import Replica
from plimsoll.controllers.deletion_cost.replicaset_ranking import active
from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings, WorkloadSettings
from plimsoll.controllers.deletion_cost.values import read_value
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Deployment, Node, Pod, ReplicaSet
from plimsoll.kube.types.resources import BY_OWNER, NODES, PODS, REPLICASETS


class ReplicaSetPods(Struct, frozen=True):
    """During a rollout a Deployment has several of these, and each is scaled down by itself."""

    replica_set: ReplicaSet
    replicas: tuple[Replica, ...]


class Seen(Struct, frozen=True):
    deployment: Deployment
    settings: WorkloadSettings
    sets: tuple[ReplicaSetPods, ...]
    nodes: Mapping[str, Node]  # those of the pods, as far as they exist
    now: datetime

    @property
    def replicas(self) -> Iterator[Replica]:
        return (replica for its in self.sets for replica in its.replicas)


def pods_of(deployment: Deployment, view: View) -> list[tuple[ReplicaSet, list[Pod]]]:
    """The active pods by ReplicaSet, found by the owners' UIDs; ReplicaSets without any are left out."""
    owned = []
    for replica_set in view[REPLICASETS].by(BY_OWNER, deployment.uid):
        pods = [pod for pod in view[PODS].by(BY_OWNER, replica_set.uid) if active(pod)]
        if pods:
            owned.append((replica_set, pods))
    return owned


def see(
    deployment: Deployment,
    settings: WorkloadSettings,
    view: View,
    *,
    configured: DeletionCostSettings,
    now: datetime,
) -> Seen:
    owned = pods_of(deployment, view)
    names = {pod.spec.node_name for _, pods in owned for pod in pods}

    def replica(pod: Pod) -> Replica:
        value = read_value(pod, settings, ceiling=configured.ceiling, adopt_existing=configured.adopt_existing)
        return Replica.of(pod, value)

    return Seen(
        deployment,
        settings,
        sets=tuple(ReplicaSetPods(replica_set, tuple(map(replica, pods))) for replica_set, pods in owned),
        nodes={name: node for name in names if (node := view[NODES].get("", name)) is not None},
        now=now,
    )
