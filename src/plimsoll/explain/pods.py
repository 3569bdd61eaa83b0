"""Explain a pod: why it is Pending, or where it runs."""

from __future__ import annotations

from datetime import datetime

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision, NodeGroupController
from plimsoll.controllers.nodegroups.scale_up.expected_node import ExpectedNode, expected_node, provisioning_nodes
from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpPlan
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.replica_counts import class_of
from plimsoll.controllers.placement.workload import key_of, workload_of
from plimsoll.explain.records import PodExplanation, RejectingNodes
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import NODES, PODS, Key
from plimsoll.runtime.decision import Reason
from plimsoll.scheduling.fits import reasons_by_node
from plimsoll.scheduling.model import Unschedulable
from plimsoll.scheduling.snapshot_cache import SnapshotCache

MOST_NODES_NAMED = 500  # listed nodes with room; the reason counts all


def explain_pod(
    key: Key, view: View, now: datetime, rules: ClassRules, groups: NodeGroupController | None = None
) -> PodExplanation:
    """Raises LookupError if the pod does not exist. groups: None if node groups are disabled."""
    pod = view[PODS].get(key.namespace, key.name)
    if pod is None:
        raise LookupError(f"there is no pod {key.namespace}/{key.name}")
    workload = workload_of(pod, view)
    waiting = not pod.spec.node_name and not pod.finished
    open_nodes, refused = _asked(pod, view) if waiting else ((), ())
    awaits, coming = _awaited(pod, view, now, groups) if waiting and groups is not None else (None, ())
    return PodExplanation(
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        as_of=now,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        workload=str(key_of(workload)) if workload is not None else "",
        capacity_class=class_of(pod, view, rules).value,
        reason=_reason(pod, now, waiting=waiting, fits_on=len(open_nodes), nodes=len(view[NODES]), awaits=awaits),
        awaits=awaits,
        coming=coming[:MOST_NODES_NAMED],
        fits=open_nodes[:MOST_NODES_NAMED],
        refusals=refused,
    )


def _reason(pod: Pod, now: datetime, *, waiting: bool, fits_on: int, nodes: int, awaits: ExpectedNode | None) -> Reason:
    if pod.terminating:
        return Reason("Leaving", "it is being deleted")
    if not waiting:
        return Reason("Bound", f"it is bound to node {pod.spec.node_name}")
    if fits_on:
        return Reason("Schedulable", f"it fits on {fits_on} nodes: kube-scheduler should bind it soon")
    if awaits is not None:
        return Reason("AwaitsNode", f"it waits for {awaits.sentence(now)}")
    if not nodes:
        return Reason("NoNodes", "the cluster has no nodes")
    return Reason("Unschedulable", f"it fits on none of {nodes} nodes")


def _awaited(
    pod: Pod, view: View, now: datetime, groups: NodeGroupController
) -> tuple[ExpectedNode | None, tuple[ExpectedNode, ...]]:
    """The coming node that is planned for the pod, and all other coming nodes.

    Whether the others have room is not always known: only a running operator has the provider's offerings.
    """
    coming = provisioning_nodes(view)
    if not coming:
        return None, ()
    decision = groups.decide(CLUSTER, view, now)
    plan = decision.scale_up if isinstance(decision, GroupsDecision) else ScaleUpPlan()
    awaits = expected_node(f"{pod.namespace}/{pod.name}", plan, view)
    return awaits, tuple(one for one in coming if one != awaits)


def _asked(pod: Pod, view: View) -> tuple[tuple[str, ...], tuple[RejectingNodes, ...]]:
    snapshot = SnapshotCache().of(view)
    names = sorted(node.name for node in view[NODES])
    open_nodes: list[str] = []
    saying: dict[str, list[tuple[str, Unschedulable]]] = {}
    for name, refusal in reasons_by_node(snapshot, pod, names).items():
        if refusal is None:
            open_nodes.append(name)
        else:
            saying.setdefault(refusal.rule.value, []).append((name, refusal))
    groups = sorted(saying.items(), key=lambda item: -len(item[1]))
    return tuple(open_nodes), tuple(
        RejectingNodes(rule, len(found), found[0][0], found[0][1].message) for rule, found in groups
    )
