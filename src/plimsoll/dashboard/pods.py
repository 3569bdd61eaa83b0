"""Pending pod records: why a pod has no node, from the scheduler and from the node groups."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.scale_up.expected_node import expected_node
from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpPlan
from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from plimsoll.dashboard.records import GroupRefusal, PendingRecord
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.nomination import preemption_under_way


def is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished and not pod.terminating


def pending_record(pod: Pod, plan: ScaleUpPlan, view: View) -> PendingRecord:
    scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    name = f"{pod.namespace}/{pod.name}"
    tried = plan.refusals.get(name, {})
    since = scheduled.last_transition_time if scheduled is not None else None
    return PendingRecord(
        since=since or pod.metadata.creation_timestamp,
        why=_why(pod, view, scheduled.message if scheduled is not None and scheduled.status == "False" else ""),
        awaits=expected_node(name, plan, view) if VPSIE_NODES in view else None,
        tried=[GroupRefusal(where, message) for where, message in tried.items()],
    )


def _why(pod: Pod, view: View, scheduler_says: str) -> str:
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"kube-scheduler ignores the pod while it has the scheduling gates {gates}"
    if preemption_under_way(pod, view):
        return f"pods on node {pod.status.nominated_node_name} are being preempted for it"
    return scheduler_says or "kube-scheduler has not tried it yet"
