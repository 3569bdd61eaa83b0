"""The values that a decision writes now, and why others wait: frequent rewriting is the known risk of this annotation.

Both limits follow from the objects in the cluster, so a restart or another leader changes nothing about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import ValuedPod
from plimsoll.controllers.deletion_cost.replicaset_ranking import decided_by_cost
from plimsoll.controllers.deletion_cost.spec import HIGHEST_COST, LOWEST_COST
from plimsoll.controllers.deletion_cost.values import DeletionValue, ValueRecord, written
from plimsoll.controllers.deletion_cost.workload import DeploymentState, ReplicaSetPods
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Blocker, Patch, Reason, Ref

MINUTE = timedelta(minutes=1)
# A pod that is replaced, or unready for a moment (three probes of ten seconds by default), leaves a gap that closes by itself.
# Autoscalers wait for minutes before they scale down, so waiting this long risks little.
SETTLING = timedelta(seconds=30)


def settling_blocker(replica_set: ReplicaSet, pods: Iterable[Pod], now: datetime) -> Blocker | None:
    """Why gaps in the values of this ReplicaSet may close by themselves, or None; `pods` are its active ones."""
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
    """Whether a quota or a webhook rejects new pods: they may never be created."""
    return any(c.type == "ReplicaFailure" and c.status == "True" for c in replica_set.status.conditions)


def rewrites_left(records: Iterable[ValueRecord], per_minute: int, now: datetime) -> tuple[int, datetime | None]:
    """How many values of one workload may be rewritten now, and when one more may."""
    # A time in the future is from a clock that was ahead; it does not count.
    recent = [
        record.rewritten
        for record in records
        if record.rewritten is not None and now - MINUTE < record.rewritten <= now
    ]
    if not per_minute:
        return 0, None
    return max(0, per_minute - len(recent)), min(recent, default=now) + MINUTE


WriteKind = Literal["first", "renewed", "restored", "rewritten"]


class ValueWrite(Struct, frozen=True):
    pod: Pod
    cost: int
    kind: WriteKind
    before: int | None

    @property
    def limited(self) -> bool:
        """Whether the rewrite limit applies. First values and new settings happen once; the rest could repeat for ever."""
        return self.kind in ("rewritten", "restored")


class WritePlan(Struct, frozen=True):
    """The writes of this decision, and what blocks the others."""

    now: tuple[ValueWrite, ...]
    blockers: tuple[Blocker, ...]
    requeue_after: timedelta | None

    @property
    def costs(self) -> dict[str, int]:
        return {write.pod.uid: write.cost for write in self.now}


def wanted_writes(owned: ReplicaSetPods, costs: Mapping[str, int]) -> list[ValueWrite]:
    """The differences between an algorithm's values and the current ones. Foreign values stay.

    Raises LookupError or ValueError if the algorithm returned an unknown pod or an invalid value.
    """
    by_uid = {replica.pod.uid: replica for replica in owned.replicas}
    writes = []
    for uid, cost in costs.items():
        if uid not in by_uid:
            raise LookupError(f"{uid} is not the UID of any of the pods")
        replica = by_uid[uid]
        if not (isinstance(cost, int) and LOWEST_COST <= cost <= HIGHEST_COST):
            raise ValueError(f"{cost!r} for pod {replica.pod.name} is not an int32")
        if replica.value_owner != "foreign" and replica.cost != cost:
            writes.append(ValueWrite(replica.pod, cost, _kind(replica.value), _before(replica)))
    return writes


def limit_rewrites(state: DeploymentState, wanted: list[list[ValueWrite]], per_minute: int) -> WritePlan:
    """The writes that the limits allow now; `wanted` has one list per ReplicaSet."""
    records = (replica.value.record for replica in state.replicas if replica.value.record is not None)
    left, more_at = rewrites_left(records, per_minute, state.now)
    writes: list[ValueWrite] = []
    blockers: list[Blocker] = []
    for owned, owned_writes in zip(state.sets, wanted, strict=True):
        writes += [write for write in owned_writes if not write.limited]
        limited = [write for write in owned_writes if write.limited]
        if not limited:
            continue
        changing = settling_blocker(owned.replica_set, [replica.pod for replica in owned.replicas], state.now)
        if changing is not None:
            blockers.append(changing)
            continue
        writes += limited[:left]
        if len(limited) > left:
            excess = f"{len(limited) - left} values of ReplicaSet {owned.replica_set.name} must still be rewritten"
            blockers.append(Blocker("RewriteLimit", f"{excess}: maxRewritesPerMinute is {per_minute}", more_at))
        left -= min(left, len(limited))
    until = min((blocker.until for blocker in blockers if blocker.until is not None), default=None)
    return WritePlan(tuple(writes), tuple(blockers), until - state.now if until is not None else None)


def patch(write: ValueWrite, state: DeploymentState) -> Patch:
    """The patch of a write. It fails if the pod changed since the view saw it: somebody may have written a value."""
    cost, name = write.cost, write.pod.name
    why = {
        "first": Reason("FirstValue", f"pod {name} gets {cost}"),
        "renewed": Reason("SettingsChanged", f"pod {name} gets {cost}: {write.before} was computed for other settings"),
        "restored": Reason("ValueRestored", f"pod {name} gets {cost}: somebody removed its value"),
        "rewritten": Reason("HoleClosed", f"pod {name} gets {cost} instead of {write.before}"),
    }[write.kind]
    body = written(cost, state.settings, rewritten=state.now if write.limited else None)
    return Patch(Ref.to(PODS, write.pod), body, why, form="strategic", brief=True)


def _kind(value: DeletionValue) -> WriteKind:
    if value.value_owner == "ours":
        return "rewritten"
    if value.outdated is not None:
        return "renewed"
    return "restored" if value.taken_away else "first"


def _before(replica: ValuedPod) -> int | None:
    return replica.value.outdated if replica.cost is None else replica.cost
