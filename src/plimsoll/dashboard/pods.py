"""A pod that has no node yet, and why: in the scheduler's words, and in those of the groups that help, or might have."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.scale_up.expected_node import awaited_by
from plimsoll.controllers.nodegroups.scale_up.question import ScaleUp
from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from plimsoll.dashboard.records import PendingRecord, Refusal
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod


def is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished and not pod.terminating


def pending_record(pod: Pod, plan: ScaleUp, view: View) -> PendingRecord:
    scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    name = f"{pod.namespace}/{pod.name}"
    tried = plan.tried.get(name, {})
    since = scheduled.last_transition_time if scheduled is not None else None
    return PendingRecord(
        since=since or pod.metadata.creation_timestamp,
        why=_why(pod, scheduled.message if scheduled is not None and scheduled.status == "False" else ""),
        awaits=awaited_by(name, plan, view) if VPSIE_NODES in view else None,
        tried=[Refusal(where, message) for where, message in tried.items()],
    )


def _why(pod: Pod, scheduler_says: str) -> str:
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"kube-scheduler does not look at it while it has the gates {gates}"
    if pod.status.nominated_node_name:
        return f"others leave node {pod.status.nominated_node_name} to make room for it"
    return scheduler_says or "kube-scheduler has not looked at it yet"
