"""Which pods wait for a node that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.kube.types.core import Pod


class Waiting(Struct, frozen=True):
    pods: tuple[Pod, ...]  # that count, in the order of their names
    next_at: datetime | None = None  # when the next pod will count that does not yet
    since: datetime | None = None  # when the first of those that count began to wait


def unschedulable_since(pod: Pod) -> datetime | None:
    """Since when kube-scheduler finds no node for the pod; None where it may still find one, or is not to look for one."""
    if pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            break
    else:
        return None
    if pod.status.nominated_node_name:
        return None  # others make room for it
    if pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet":
        return None  # it waits for one certain node
    return condition.last_transition_time or pod.metadata.creation_timestamp


def nominated(pods: Iterable[Pod]) -> dict[str, str]:
    """The nodes on which others make room for a pod, each with that pod."""
    waiting = (pod for pod in pods if pod.status.nominated_node_name and not (pod.terminating or pod.finished))
    return {pod.status.nominated_node_name: f"{pod.namespace}/{pod.name}" for pod in waiting}


def waiting_pods(pods: Iterable[Pod], now: datetime, grace: timedelta) -> Waiting:
    found: list[Pod] = []
    next_at: datetime | None = None
    first: datetime | None = None
    for pod in pods:
        since = unschedulable_since(pod)
        if since is None:
            continue
        if since + grace <= now:
            found.append(pod)
            first = since if first is None or since < first else first
        else:
            next_at = min(next_at or since + grace, since + grace)
    found.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    return Waiting(tuple(found), next_at, first)
