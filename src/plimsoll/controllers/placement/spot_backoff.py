"""Spot shortages: replace pods that find no spot node, and keep their workload away from spot for a while.

A pod that is unschedulable on spot for `placement.spotFallbackAfter` is replaced on-demand. That disrupts nothing that runs, so
no window, cooldown or budget applies, only a limit per minute. The workload then backs off from spot. The pause grows with each
shortage that soon follows the last one. After the pause one replica at a time goes to spot until one of them has a node there:
a shortage that lasts costs one pending pod, not all of them.

The record lives in a ConfigMap of the operator's namespace under the workload's UID. The leader and every replica that answers
admission requests read it through the view. The controller calls `plan_spot_fallback`, the checks and admission `spot_blocker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec
from msgspec import Struct

from plimsoll.controllers.placement.annotations import PLACED_BY, REASON, PlacementReason, assigned_class
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.replica_counts import replicas as replicas_of
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import workload_at
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.kube.cache.store import View
from plimsoll.kube.shards import LABEL, shard_name
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import ConfigMap, Pod
from plimsoll.kube.types.durations import format_duration
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.kube.workloads import active, pods_of
from plimsoll.runtime.decision import Action, Blocker, Create, Event, Evict, Patch, Reason, Ref
from plimsoll.runtime.phrases import counted, nth
from plimsoll.scheduling.nomination import preemption_under_way

KIND = "placement"
# Cluster Autoscaler's pauses for a node group that failed to grow.
FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(minutes=30)
# How long after the pause serving replicas stay away from spot nodes that do not exist yet.
FIRST_UNPROVEN_PAUSE = timedelta(hours=2)
LONGEST_UNPROVEN_PAUSE = timedelta(hours=12)
MINUTE = timedelta(minutes=1)


class SpotBackoff(Struct, frozen=True):
    """The last spot shortage of one workload."""

    workload: Key
    since: datetime
    until: datetime
    shortages: int = 1  # in a row, each before the last one expired

    @property
    def unproven_until(self) -> datetime:
        """Until when no serving replica moves to a spot node that does not exist yet."""
        return self.until + unproven_pause(self.shortages)

    def expired(self, now: datetime) -> bool:
        """Whether the shortage is so long ago that the next one starts with the first pause again."""
        return now >= self.until + 2 * unproven_pause(self.shortages)


def pause(shortages: int) -> timedelta:
    """5, 10, 20, then 30 minutes."""
    return min(FIRST_PAUSE * (1 << min(shortages - 1, 16)), LONGEST_PAUSE)


def unproven_pause(shortages: int) -> timedelta:
    """2, 4, 8, then 12 hours."""
    return min(FIRST_UNPROVEN_PAUSE * (1 << min(shortages - 1, 16)), LONGEST_UNPROVEN_PAUSE)


# ── may a replica go to spot now? ────────────────────────────────────────────────────────────────────────────────────────


def backoff_of(uid: str, view: View, settings: PlacementSettings) -> SpotBackoff | None:
    """The record of a workload, by UID; None if there is none or if it cannot be decoded."""
    shard = view[settings.memory].get(settings.namespace, backoff_shard(uid))
    text = shard.data.get(uid) if shard is not None else None
    return _read(text) if text is not None else None


def spot_blocker(
    uid: str, replicas: Iterable[Replica], view: View, now: datetime, settings: PlacementSettings
) -> Blocker | None:
    """Why no further replica of this workload may go to spot now, or None. `replicas` are all of the workload's."""
    record = backoff_of(uid, view, settings)
    if record is None or record.expired(now):
        return None
    if now < record.until:
        message = f"spot ran short at {record.since:%H:%M:%S} UTC for the {nth(record.shortages)} time in a row"
        return Blocker("SpotHeldBack", message, record.until)
    sent = [replica for replica in replicas if assigned_class(replica.pod) is CapacityClass.SPOT]
    waiting = next((replica.pod.name for replica in sent if not replica.bound), None)
    if waiting is None or _spot_is_back(record, sent):
        return None
    message = f"pod {waiting} is pending on spot; after a shortage one replica at a time tries whether spot is back"
    return Blocker("SpotReturning", message)


def spot_is_unproven(
    uid: str, replicas: Iterable[Replica], view: View, now: datetime, settings: PlacementSettings
) -> bool:
    """Whether no replica has found a spot node since the last shortage."""
    record = backoff_of(uid, view, settings)
    return record is not None and not record.expired(now) and not _spot_is_back(record, replicas)


def unproven_spot_blocker(state: WorkloadState) -> Blocker | None:
    """Why no serving replica of any workload may move to a spot node that does not exist yet, or None.

    A shortage of one workload says that the autoscaler does not deliver: for hours, or until a replica of that workload has found
    a spot node. New replicas, which serve nobody yet, go on trying.
    """
    for shard in state.view[state.settings.memory]:
        for record in _records(shard):
            if state.now >= record.unproven_until:
                continue
            workload = workload_at(record.workload, state.view)
            if workload is None:
                continue
            found = replicas_of(pods_of(workload, state.view), state.view, state.settings.rules)
            if not _spot_is_back(record, found):
                message = f"no spot node has room, and {record.workload} found none at {record.since:%H:%M:%S} UTC"
                return Blocker("SpotUnproven", message, record.unproven_until)
    return None


def _spot_is_back(record: SpotBackoff, replicas: Iterable[Replica]) -> bool:
    """Whether a replica that was created for spot after the pause has a node."""
    return any(
        replica.bound and assigned_class(replica.pod) is CapacityClass.SPOT and _created(replica) >= record.until
        for replica in replicas
    )


# ── pods that find no spot node ──────────────────────────────────────────────────────────────────────────────────────────


class FallbackPlan(Struct, frozen=True):
    """Actions for pods that are unschedulable on spot, and when to check them again."""

    actions: tuple[Action, ...] = ()
    blocker: Blocker | None = None
    check_at: datetime | None = None


def plan_spot_fallback(state: WorkloadState) -> FallbackPlan:
    """Record the shortage first; replace the overdue pods once the view shows the record, because admission reads it there."""
    waiting = [
        (since, replica)
        for replica in state.replicas
        if (since := spot_unschedulable_since(replica, state.view)) is not None
    ]
    if not waiting:
        return FallbackPlan()
    waiting.sort(key=lambda entry: (entry[0], entry[1].pod.name))
    patience = state.settings.spot_fallback_after
    overdue = [replica for since, replica in waiting if state.now >= since + patience]
    check_at = min((since + patience for since, _ in waiting if state.now < since + patience), default=None)
    if not overdue:
        return FallbackPlan(check_at=check_at)
    record = backoff_of(state.workload.uid, state.view, state.settings)
    pods = f"{len(overdue)} pods of {state.key}" if len(overdue) > 1 else f"pod {overdue[0].pod.name} of {state.key}"
    why = Reason("SpotShortage", f"{pods} found no spot node for {format_duration(patience)}")
    if record is None or state.now >= record.until:
        write = record_shortage(state.workload.uid, state.view, state.now, state.settings, workload=state.key, why=why)
        return FallbackPlan((write,), check_at=check_at)
    left, more_at = _replacements_left(state)
    blocker = None
    if len(overdue) > left:
        pending = f"{counted(len(overdue) - left, 'pod')} without a spot node must still be replaced on-demand"
        limit = state.settings.max_fallbacks_per_minute
        blocker = Blocker("FallbackLimit", f"{pending}; placement.maxFallbacksPerMinute is {limit}", more_at)
    return FallbackPlan(tuple(_replace(replica, state, why) for replica in overdue[:left]), blocker, check_at)


def spot_unschedulable_since(replica: Replica, view: View) -> datetime | None:
    """Since when a pod of class spot has been unschedulable; None for any other pod."""
    if assigned_class(replica.pod) is not CapacityClass.SPOT:
        return None
    return _unschedulable_since(replica.pod, view)


def _unschedulable_since(pod: Pod, view: View) -> datetime | None:
    if pod.spec.node_name or preemption_under_way(pod, view):
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return None


def plan_release(
    about: Ref, workload: Deployment | StatefulSet, view: View, now: datetime, settings: PlacementSettings
) -> FallbackPlan:
    """Evict pods of a workload that is no longer managed and that wait for a node of the class we assigned.

    Only unschedulable pods with this installation's annotations: without a class, their replacements may run anywhere.
    """
    actions: list[Action] = []
    check_at: datetime | None = None
    for pod in sorted(pods_of(workload, view), key=lambda pod: pod.name):
        assigned = assigned_class(pod)
        ours = pod.annotations.get(PLACED_BY) == settings.installation
        if assigned is None or not ours or not active(pod) or workload.terminating:
            continue
        since = _unschedulable_since(pod, view)
        if since is None:
            continue
        overdue = since + settings.spot_fallback_after
        if now < overdue:
            check_at = min(check_at or overdue, overdue)
        elif len(actions) < settings.max_fallbacks_per_minute:
            waiting = (
                f"pod {pod.name} found no {assigned.value} node for {format_duration(settings.spot_fallback_after)}"
            )
            why = Reason(
                "ClassReleased", f"{waiting}; its workload is no longer managed, so its replacement gets no class"
            )
            event = Event(about, "ClassReleased", why.message)
            actions.append(Evict(Ref.to(PODS, pod), about.key, why, event=event))
    if actions:
        check_at = now + MINUTE
    return FallbackPlan(tuple(actions), check_at=check_at)


def _replacements_left(state: WorkloadState) -> tuple[int, datetime]:
    """How many pods may be replaced now, and when one more may: counts the replacements created within a minute."""
    since = state.now - MINUTE
    recent = sorted(
        created
        for replica in state.replicas
        if replica.pod.annotations.get(REASON) == PlacementReason.HELD_BACK.value
        and (created := replica.pod.metadata.creation_timestamp) is not None
        and created > since
    )
    left = max(0, state.settings.max_fallbacks_per_minute - len(recent))
    return left, (recent[0] if recent else state.now) + MINUTE


def _replace(replica: Replica, state: WorkloadState, why: Reason) -> Evict:
    pod = replica.pod
    event = Event(state.ref, "SpotFallback", f"pod {pod.name} found no spot node and is replaced on-demand", "Warning")
    return Evict(Ref.to(PODS, pod), state.key, why, event=event)


# ── the record ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def record_shortage(
    uid: str, view: View, now: datetime, settings: PlacementSettings, *, workload: Key, why: Reason
) -> Create | Patch:
    """The write that records a shortage now and removes expired records of the same shard."""
    before = backoff_of(uid, view, settings)
    shortages = before.shortages + 1 if before is not None and not before.expired(now) else 1
    record = SpotBackoff(workload, now, now + pause(shortages), shortages)
    data: dict[str, str | None] = {uid: msgspec.json.encode(record).decode()}
    name = backoff_shard(uid)
    shard = view[settings.memory].get(settings.namespace, name)
    if shard is None:
        body = {"metadata": {"labels": {LABEL: KIND}}, "data": data}
        return Create(settings.memory, settings.namespace, name, body, why)
    for other, text in shard.data.items():
        if other != uid and ((old := _read(text)) is None or old.expired(now)):
            data[other] = None
    return Patch(Ref.to(settings.memory, shard), {"data": data}, why)


def backoff_shard(uid: str) -> str:
    return shard_name(KIND, uid)


def workloads_in(shard: ConfigMap) -> Iterator[Key]:
    """The workloads with a record in this ConfigMap."""
    return (record.workload for record in _records(shard))


def _records(shard: ConfigMap) -> Iterator[SpotBackoff]:
    if shard.labels.get(LABEL) == KIND:
        for text in shard.data.values():
            if (record := _read(text)) is not None:
                yield record


def _created(replica: Replica) -> datetime:
    created = replica.pod.metadata.creation_timestamp
    return created if created is not None else datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)  # every decision about a workload decodes the same few texts again
def _read(text: str) -> SpotBackoff | None:
    try:
        return msgspec.json.decode(text, type=SpotBackoff)
    except msgspec.MsgspecError:
        return None  # edited by hand: a lost pause costs one early try
