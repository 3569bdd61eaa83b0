"""The state of one Deployment as a decision sees it: its ReplicaSets, pods, values and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import ValuedPod
from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings, WorkloadSettings
from plimsoll.controllers.deletion_cost.values import read_value
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES
from plimsoll.kube.workloads import active, pods_by_replica_set


class ReplicaSetPods(Struct, frozen=True):
    """A ReplicaSet and its active pods. During a rollout a Deployment has several, and each is scaled down separately."""

    replica_set: ReplicaSet
    replicas: tuple[ValuedPod, ...]


class DeploymentState(Struct, frozen=True):
    deployment: Deployment
    settings: WorkloadSettings
    sets: tuple[ReplicaSetPods, ...]
    nodes: Mapping[str, Node]  # the nodes of the pods that exist
    now: datetime

    @property
    def replicas(self) -> Iterator[ValuedPod]:
        return (replica for owned in self.sets for replica in owned.replicas)


def active_pods(deployment: Deployment, view: View) -> list[tuple[ReplicaSet, list[Pod]]]:
    """The active pods of a Deployment by ReplicaSet, without ReplicaSets that have none."""
    owned = (
        (replica_set, [pod for pod in pods if active(pod)])
        for replica_set, pods in pods_by_replica_set(deployment, view)
    )
    return [(replica_set, pods) for replica_set, pods in owned if pods]


def gather(
    deployment: Deployment,
    settings: WorkloadSettings,
    view: View,
    *,
    configured: DeletionCostSettings,
    now: datetime,
) -> DeploymentState:
    owned = active_pods(deployment, view)
    names = {pod.spec.node_name for _, pods in owned for pod in pods}

    def replica(pod: Pod) -> ValuedPod:
        value = read_value(pod, settings, ceiling=configured.ceiling, adopt_existing=configured.adopt_existing)
        return ValuedPod.of(pod, value)

    return DeploymentState(
        deployment,
        settings,
        sets=tuple(ReplicaSetPods(replica_set, tuple(map(replica, pods))) for replica_set, pods in owned),
        nodes={name: node for name in names if (node := view[NODES].get("", name)) is not None},
        now=now,
    )
