"""A pod that nothing would make anew, and the only ready one of its owner, stay where they are."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.scale_down.checks.opt_outs import said_safe
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Situation
from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.types.core import Pod
from plimsoll.kube.workloads import owner_of
from plimsoll.runtime.decision import Blocker


def replicas(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if said_safe(pod):
            continue
        title = f"pod {pod.namespace}/{pod.name}"
        if pod.metadata.controller is None:
            return Blocker("NotReplicated", f"{title} has no controller that would make it anew")
        if pod.ready:
            owner = owner_of(pod, situation.seen.view)
            if not any(one.uid != pod.uid and one.ready and not one.terminating for one in owner.pods):
                return Blocker("LastReady", f"{title} is the only ready pod of {owner.key}")
    return None


# Pods of kube-system are moved only where a PodDisruptionBudget or an annotation says that they may be.


def system_pods(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if pod.namespace != "kube-system" or said_safe(pod):
            continue
        if not budgets_of(pod, situation.seen.view):
            message = f"pod {pod.namespace}/{pod.name} is a system pod without a PodDisruptionBudget"
            return Blocker("UnmovableKubeSystemPod", message)
    return None


# What a pod keeps on its node is lost with it.

SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def local_storage(candidate: Candidate, situation: Situation) -> Blocker | None:  # noqa: ARG001 - the shape of all checks
    for pod in candidate.pods:
        kept = _local_volumes(pod)
        if kept and not said_safe(pod):
            message = (
                f"pod {pod.namespace}/{pod.name} keeps data on the node (volume {kept[0]}); if it may be lost, say so with the "
                f"annotation {SAFE_VOLUMES}"
            )
            return Blocker("LocalStorageRequested", message)
    return None


def _local_volumes(pod: Pod) -> list[str]:
    exempt = {name.strip() for name in pod.annotations.get(SAFE_VOLUMES, "").split(",")}
    return [
        volume.name
        for volume in pod.spec.volumes
        if (volume.empty_dir is not None or volume.host_path is not None) and volume.name not in exempt
    ]


# Each pod has a place elsewhere: its requests, affinities and spread judged as kube-scheduler will.


def placeable(candidate: Candidate, situation: Situation) -> Blocker | None:
    if not candidate.pods:
        return None
    removal = situation.removals.get(candidate.name)
    if removal is None:
        return Blocker(
            "NoPlaceToMovePods", f"whether the pods of node {candidate.name} have another place is not known"
        )
    if removal.reason is not None:
        return Blocker(
            "NoPlaceToMovePods", f"the pods of node {candidate.name} have no other place: {removal.reason.message}"
        )
    return None


# A node on which pods that wait are counted on is not empty, although the scheduler has yet to find it.


def pods_expected(candidate: Candidate, situation: Situation) -> Blocker | None:
    pod = situation.expected.get(candidate.name)
    if pod is None:
        return None
    return Blocker("PodsExpected", f"pod {pod} waits for a place and would fit on node {candidate.name}")


# Drives and ports that a storage container holds on the node, or is about to, are not taken from under it.


def allocations(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "WekaContainer":
            message = f"pod {pod.namespace}/{pod.name} runs the storage container {owner.name}"
            return Blocker("AllocationOnNode", message)
    holders = situation.seen.settings.holders
    if holders is not None and (holder := holders.seen_on(candidate.name, situation.seen.view)) is not None:
        return Blocker("AllocationOnNode", f"{holders.title(holder)} holds, or is about to hold, drives there")
    return None
