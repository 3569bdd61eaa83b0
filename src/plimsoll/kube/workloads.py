"""Which pods belong to which workload: from a pod up to its topmost controller, and down again to all of its pods.

Owners are found by UID, because names come back, and within one namespace, because an ownerReference can be forged: nobody may
add a pod to a workload of another namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet, Workload
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import BY_OWNER, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key, owner_key


class Owner(Struct, frozen=True):
    """The topmost controller of a pod. A pod without a controller owns itself."""

    key: Key
    uid: str
    replicas: int | None  # pods that it asks for; None where the owner's kind is not watched
    pods: tuple[Pod, ...]


def active(pod: Pod) -> bool:
    """Neither terminating nor finished: what Kubernetes counts as a replica."""
    return not pod.terminating and not pod.finished


def pods_owned_by(namespace: str, uid: str, view: View) -> tuple[Pod, ...]:
    """The pods of `namespace` whose controller has this UID."""
    return view[PODS].by(BY_OWNER, owner_key(namespace, uid))


def replica_sets_of(deployment: Deployment, view: View) -> tuple[ReplicaSet, ...]:
    return view[REPLICASETS].by(BY_OWNER, owner_key(deployment.namespace, deployment.uid))


def pods_by_replica_set(deployment: Deployment, view: View) -> Iterator[tuple[ReplicaSet, tuple[Pod, ...]]]:
    """Each ReplicaSet of a Deployment with its pods, whatever their phase."""
    for replica_set in replica_sets_of(deployment, view):
        yield replica_set, pods_owned_by(replica_set.namespace, replica_set.uid, view)


def pods_of(workload: Deployment | StatefulSet | ReplicaSet, view: View) -> tuple[Pod, ...]:
    """Every pod of a workload; of a Deployment, those of all its ReplicaSets."""
    if isinstance(workload, Deployment):
        return tuple(pod for _, pods in pods_by_replica_set(workload, view) for pod in pods)
    return pods_owned_by(workload.namespace, workload.uid, view)


def owner_of(pod: Pod, view: View) -> Owner:
    """The topmost controller of a pod that the view holds."""
    reference = pod.metadata.controller
    namespace = pod.metadata.namespace
    if reference is None:
        return Owner(PODS.key(pod), pod.metadata.uid, 1, (pod,))
    if reference.kind == "ReplicaSet" and REPLICASETS in view:
        replica_set = view[REPLICASETS].get(namespace, reference.name)
        if replica_set is not None and replica_set.metadata.uid == reference.uid:
            above = replica_set.metadata.controller
            if above is not None and above.kind == "Deployment" and DEPLOYMENTS in view:
                deployment = view[DEPLOYMENTS].get(namespace, above.name)
                if deployment is not None and deployment.metadata.uid == above.uid:
                    return _owner("Deployment", deployment, pods_of(deployment, view))
            return _owner("ReplicaSet", replica_set, pods_of(replica_set, view))
    if reference.kind == "StatefulSet" and STATEFULSETS in view:
        stateful_set = view[STATEFULSETS].get(namespace, reference.name)
        if stateful_set is not None and stateful_set.metadata.uid == reference.uid:
            return _owner("StatefulSet", stateful_set, pods_of(stateful_set, view))
    key = Key(reference.kind, namespace, reference.name)
    return Owner(key, reference.uid, None, pods_owned_by(namespace, reference.uid, view))


def _owner(kind: str, workload: Workload, pods: tuple[Pod, ...]) -> Owner:
    meta = workload.metadata
    return Owner(Key(kind, meta.namespace, meta.name), meta.uid, workload.spec.replicas, pods)
