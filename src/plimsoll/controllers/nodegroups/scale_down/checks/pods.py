"""Checks that concern the pods of a node. Rules that placement shares are in `plimsoll.disruption`."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.group_state import pods_to_move
from plimsoll.controllers.nodegroups.scale_down.checks.check import CheckContext, RemovalCandidate
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import BEING_REMOVED, SINGLE_REPLICA, VPSIE_NODES, NodeGroup
from plimsoll.disruption.last_ready import last_ready_blocker, wanted_replicas
from plimsoll.disruption.opt_out import (
    SAFE_TO_EVICT_LOCAL_VOLUMES,
    local_volumes,
    node_opt_out,
    pod_opt_out,
    said_safe,
)
from plimsoll.disruption.pdb import allowance
from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.types.core import Pod
from plimsoll.kube.workloads import owner_of
from plimsoll.runtime.decision import Blocker


def pods_expected(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """A node on which a pending pod fits is in use, although kube-scheduler has not bound the pod yet."""
    pod = check_context.expected.get(candidate.name)
    if pod is None:
        return None
    return Blocker("PodsExpected", f"pending pod {pod} fits on node {candidate.name}")


def opt_outs(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """Annotations by which people say that a node stays, or that a pod must not be evicted."""
    annotated = (
        (f"node {candidate.name}", candidate.node.annotations),
        (f"VPSieNode {candidate.member.name}", candidate.member.annotations),
    )
    for title, found in annotated:
        if (blocker := node_opt_out(title, found)) is not None:
            return blocker
    blockers = (pod_opt_out(pod, check_context.context.now) for pod in candidate.pods)
    return next((blocker for blocker in blockers if blocker is not None), None)


def system_pods(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """Pods of kube-system move only if a PodDisruptionBudget covers them or an annotation allows it."""
    for pod in candidate.pods:
        if pod.namespace != "kube-system" or said_safe(pod):
            continue
        if not budgets_of(pod, check_context.context.view):
            message = f"pod {pod.namespace}/{pod.name} is a system pod without a PodDisruptionBudget"
            return Blocker("UnmovableKubeSystemPod", message)
    return None


def replicated(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """Every pod has a controller that recreates it, and none is the only ready replica of its workload."""
    for pod in candidate.pods:
        if said_safe(pod):
            continue
        if pod.metadata.controller is None:
            return Blocker("NotReplicated", f"pod {pod.namespace}/{pod.name} has no controller that would recreate it")
        owner = owner_of(pod, check_context.context.view)
        if (blocker := last_ready_blocker(pod, owner.key, owner.pods)) is None:
            continue
        if wanted_replicas(owner) > 1:
            return blocker
        if not single_replica_may_move(pod, candidate.group.group, check_context.context.settings):
            return Blocker(blocker.code, f"{blocker.message}; singleReplicas: allow would evict it")
    return None


def single_replica_may_move(pod: Pod, group: NodeGroup, settings: NodeGroupSettings) -> bool:
    """The pod's annotation decides, then the group, then the configuration."""
    wishes = (
        pod.annotations.get(SINGLE_REPLICA),
        group.spec.scale_down_policy.single_replicas,
        settings.single_replicas,
    )
    return next((wish for wish in wishes if wish in ("never", "allow")), "never") == "allow"


def local_storage(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:  # noqa: ARG001 - a CheckFunction
    """Data that a pod keeps on its node is lost with the node."""
    for pod in candidate.pods:
        volumes = local_volumes(pod)
        if volumes and not said_safe(pod):
            message = (
                f"pod {pod.namespace}/{pod.name} keeps data on the node (volume {volumes[0]}); if the data may be lost, list the "
                f"volume in the pod's annotation {SAFE_TO_EVICT_LOCAL_VOLUMES}"
            )
            return Blocker("LocalStorageRequested", message)
    return None


def held_allocations(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """A storage container keeps its node as long as it holds drives or ports there, or is about to."""
    for pod in candidate.pods:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "WekaContainer":
            message = f"pod {pod.namespace}/{pod.name} runs the storage container {owner.name}"
            return Blocker("AllocationOnNode", message)
    context = check_context.context
    holders = context.settings.holders
    if holders is not None and (holder := holders.first_on(candidate.name, context.view)) is not None:
        message = f"{holders.title(holder)} holds drives or ports on node {candidate.name}, or is about to"
        return Blocker("AllocationOnNode", message)
    return None


def budgets(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """PodDisruptionBudgets allow the first eviction now; the others follow one by one as the budgets allow them."""
    elsewhere = _evicted_elsewhere(candidate, check_context)
    blockers = (allowance(pod, check_context.context.view, elsewhere).blocker for pod in candidate.pods)
    return next((blocker for blocker in blockers if blocker is not None), None)


def _evicted_elsewhere(candidate: RemovalCandidate, check_context: CheckContext) -> list[Pod]:
    """Pods of other nodes that are being drained: they use up their budgets before the pods of this node."""
    context = check_context.context
    return [
        pod
        for member in context.view[VPSIE_NODES].by(BEING_REMOVED, "")
        if member.node_name != candidate.name
        for pod in pods_to_move(context.pods_on(member.node_name))
    ]


def placeable(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """Every pod fits on another node, by kube-scheduler's rules."""
    if not candidate.pods:
        return None
    removal = check_context.removals.get(candidate.name)
    if removal is None:
        return Blocker("NoPlaceToMovePods", f"it is not known whether the pods of node {candidate.name} fit elsewhere")
    if removal.reason is not None:
        message = f"the pods of node {candidate.name} do not fit elsewhere: {removal.reason.message}"
        return Blocker("NoPlaceToMovePods", message)
    return None
