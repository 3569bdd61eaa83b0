"""The pending pods for which scale-up adds nodes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, UNBOUND
from plimsoll.scheduling.nomination import preemption_under_way


class PendingPods(Struct, frozen=True):
    pods: tuple[Pod, ...]  # pods that have been unschedulable for the grace period, sorted by name
    next_at: datetime | None = None  # when the grace period of the next pod ends
    since: datetime | None = None  # since when the first of `pods` has been unschedulable


def unschedulable_since(pod: Pod, view: View) -> datetime | None:
    """Since when kube-scheduler finds no node for the pod; None if it has not given up, or must not schedule the pod."""
    if pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            break
    else:
        return None
    if preemption_under_way(pod, view):
        return None
    if pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet":
        return None  # it belongs on one certain node
    return condition.last_transition_time or pod.metadata.creation_timestamp


def nominated(pods: Iterable[Pod]) -> dict[str, str]:
    """Node → the pod for which preemption makes room there."""
    waiting = (pod for pod in pods if pod.status.nominated_node_name and not (pod.terminating or pod.finished))
    return {pod.status.nominated_node_name: f"{pod.namespace}/{pod.name}" for pod in waiting}


def pending_pods(view: View, now: datetime, grace: timedelta) -> PendingPods:
    found: list[Pod] = []
    next_at: datetime | None = None
    first: datetime | None = None
    for pod in view[PODS].by(UNBOUND, ""):
        since = unschedulable_since(pod, view)
        if since is None:
            continue
        if since + grace <= now:
            found.append(pod)
            first = since if first is None or since < first else first
        else:
            next_at = min(next_at or since + grace, since + grace)
    found.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    return PendingPods(tuple(found), next_at, first)
