"""Whose pod is it? From a pod up to the topmost controller, and down again to all of its pods."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod, Workload
from plimsoll.kube.types.resources import BY_OWNER, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key


class Owner(Struct, frozen=True):
    """The topmost controller of a pod. A pod without one owns itself."""

    key: Key
    uid: str
    replicas: int | None  # how many pods it wants; None where the owner is of a kind that nobody watches
    pods: tuple[Pod, ...]


def owner_of(pod: Pod, view: View) -> Owner:
    """The topmost controller that the view knows, found by UID: a namesake made since is someone else."""
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
                    return _workload("Deployment", deployment, _pods_of_deployment(deployment.metadata.uid, view))
            return _workload("ReplicaSet", replica_set, view[PODS].by(BY_OWNER, reference.uid))
    if reference.kind == "StatefulSet" and STATEFULSETS in view:
        stateful_set = view[STATEFULSETS].get(namespace, reference.name)
        if stateful_set is not None and stateful_set.metadata.uid == reference.uid:
            return _workload("StatefulSet", stateful_set, view[PODS].by(BY_OWNER, reference.uid))
    key = Key(reference.kind, namespace, reference.name)
    return Owner(key, reference.uid, None, view[PODS].by(BY_OWNER, reference.uid))


def _workload(kind: str, workload: Workload, pods: tuple[Pod, ...]) -> Owner:
    meta = workload.metadata
    return Owner(Key(kind, meta.namespace, meta.name), meta.uid, workload.spec.replicas, pods)


def _pods_of_deployment(uid: str, view: View) -> tuple[Pod, ...]:
    return tuple(
        pod
        for replica_set in view[REPLICASETS].by(BY_OWNER, uid)
        for pod in view[PODS].by(BY_OWNER, replica_set.metadata.uid)
    )
