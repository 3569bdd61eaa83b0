"""How fast values of ours may change: frequent rewriting is the known danger of this annotation.

Both limits follow from what anyone can see in the cluster, so a restart or another leader changes nothing about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import Replica
from plimsoll.controllers.deletion_cost.replicaset_ranking import decided_by_cost
from plimsoll.controllers.deletion_cost.spec import HIGHEST_COST, LOWEST_COST
from plimsoll.controllers.deletion_cost.values import Mark, Value, written
from plimsoll.controllers.deletion_cost.workload import ReplicaSetPods, Seen
from plimsoll.kube.types.core import Pod, ReplicaSet
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Blocker, Patch, Reason, Ref

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


# From the values that an algorithm asks for to the writes that this decision makes.

Kind = Literal["first", "renewed", "restored", "rewritten"]


class Write(Struct, frozen=True):
    pod: Pod
    cost: int
    kind: Kind
    before: int | None

    @property
    def limited(self) -> bool:
        """A first value, or new settings, happen once. Holes and quarrels with others could go on for ever."""
        return self.kind in ("rewritten", "restored")


class Writes(Struct, frozen=True):
    """What is written now, and why the rest is not."""

    now: tuple[Write, ...]
    blockers: tuple[Blocker, ...]
    requeue_after: timedelta | None

    @property
    def costs(self) -> dict[str, int]:
        return {write.pod.uid: write.cost for write in self.now}


def wanted_writes(its: ReplicaSetPods, costs: Mapping[str, int]) -> list[Write]:
    """Where an algorithm's answer differs from what is there. Someone else's value stays, whatever the algorithm says.

    Raises LookupError or ValueError if the answer makes no sense.
    """
    by_uid = {replica.pod.uid: replica for replica in its.replicas}
    writes = []
    for uid, cost in costs.items():
        if uid not in by_uid:
            raise LookupError(f"{uid} is the UID of none of the pods that were given")
        replica = by_uid[uid]
        if not (isinstance(cost, int) and LOWEST_COST <= cost <= HIGHEST_COST):
            raise ValueError(f"{cost!r} for pod {replica.pod.name} is no int32")
        if replica.whose != "foreign" and replica.cost != cost:
            writes.append(Write(replica.pod, cost, _kind(replica.value), _before(replica)))
    return writes


def paced(seen: Seen, wanted: list[list[Write]], per_minute: int) -> Writes:
    """What of it may be written now; `wanted` has a list for each ReplicaSet."""
    marks = (replica.value.mark for replica in seen.replicas if replica.value.mark is not None)
    left, more_at = rewrites_left(marks, per_minute, seen.now)
    writes: list[Write] = []
    blockers: list[Blocker] = []
    for its, its_writes in zip(seen.sets, wanted, strict=True):
        writes += [write for write in its_writes if not write.limited]
        limited = [write for write in its_writes if write.limited]
        if not limited:
            continue
        changing = unsettled(its.replica_set, [replica.pod for replica in its.replicas], seen.now)
        if changing is not None:
            blockers.append(changing)
            continue
        writes += limited[:left]
        if len(limited) > left:
            excess = f"{len(limited) - left} values of ReplicaSet {its.replica_set.name} wait to be rewritten"
            blockers.append(Blocker("RewriteLimit", f"{excess}: the limit is {per_minute} a minute", more_at))
        left -= min(left, len(limited))
    until = min((blocker.until for blocker in blockers if blocker.until is not None), default=None)
    return Writes(tuple(writes), tuple(blockers), until - seen.now if until is not None else None)


def patch(write: Write, seen: Seen) -> Patch:
    """Refused if anyone has written to the pod since the view saw it: it might have been a value of their own."""
    cost, name = write.cost, write.pod.name
    why = {
        "first": Reason("FirstValue", f"pod {name} gets {cost}"),
        "renewed": Reason("SettingsChanged", f"pod {name} gets {cost}: {write.before} was made for other settings"),
        "restored": Reason("ValueRestored", f"pod {name} gets {cost}: someone took its value away"),
        "rewritten": Reason("HoleClosed", f"pod {name} gets {cost} instead of {write.before}"),
    }[write.kind]
    body = written(cost, seen.settings, rewritten=seen.now if write.limited else None)
    return Patch(Ref.to(PODS, write.pod), body, why, form="strategic", brief=True)


def _kind(value: Value) -> Kind:
    if value.whose == "ours":
        return "rewritten"
    if value.outdated is not None:
        return "renewed"
    return "restored" if value.taken_away else "first"


def _before(replica: Replica) -> int | None:
    return replica.value.outdated if replica.cost is None else replica.cost
