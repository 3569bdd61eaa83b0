"""How fast values of ours may change: frequent rewriting is the known danger of this annotation.

Both limits follow from what anyone can see in the cluster, so a restart or another leader changes nothing about them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from plimsoll.decision import Blocker
from plimsoll.deletion_cost.ranking import decided_by_cost
from plimsoll.deletion_cost.values import Mark
from plimsoll.kube.types import Pod, ReplicaSet

MINUTE = timedelta(minutes=1)
# A pod that is replaced, or that fails its readiness probe for a moment (three times ten seconds by default), leaves a hole
# that it fills again by itself. Autoscalers wait for minutes before they scale down, so this long a wait risks little.
SETTLING = timedelta(seconds=30)


def unsettled(replica_set: ReplicaSet, pods: Iterable[Pod], now: datetime) -> Blocker | None:
    """Why holes in this ReplicaSet may close by themselves; `pods` are its active ones."""
    starting: datetime | None = None
    count = 0
    for pod in pods:
        count += 1
        if not decided_by_cost(pod) and (since := _waiting_since(pod)) is not None and now < since + SETTLING:
            starting = max(starting or since, since)
    wanted = replica_set.spec.replicas
    if count != wanted and not _cannot_create(replica_set):
        return Blocker("ReplicasChanging", f"ReplicaSet {replica_set.name} has {count} of {wanted} pods")
    if starting is not None:
        until = starting + SETTLING
        return Blocker("ReplicasStarting", f"ReplicaSet {replica_set.name} has pods that are becoming ready", until)
    return None


def _waiting_since(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.last_transition_time
    return pod.metadata.creation_timestamp


def _cannot_create(replica_set: ReplicaSet) -> bool:
    """A quota or a webhook refuses new pods: they may never come."""
    return any(c.type == "ReplicaFailure" and c.status == "True" for c in replica_set.status.conditions)


def rewrites_left(marks: Iterable[Mark], per_minute: int, now: datetime) -> tuple[int, datetime | None]:
    """How many values of one workload may be rewritten now, and when one more may."""
    # A mark from the future was stamped by a clock that has been set back since; it does not count.
    recent = [mark.rewritten for mark in marks if mark.rewritten is not None and now - MINUTE < mark.rewritten <= now]
    if not per_minute:
        return 0, None
    return max(0, per_minute - len(recent)), min(recent, default=now) + MINUTE
