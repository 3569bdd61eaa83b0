"""Spot runs short: a pod that waits too long for it gets on-demand instead, and its workload holds back for a while.

Nothing that runs is disrupted, so no window, cooldown or budget stands in the way; only a limit a minute, so that the shortage
of a large workload does not become a flood of creations.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.placement.annotations import REASON, Why, marked_class
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.spot_backoff import hold_back, holdback_of
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import format_duration
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Action, Blocker, Event, Evict, Reason, Ref

MINUTE = timedelta(minutes=1)


class Relief(Struct, frozen=True):
    """What to do about pods that wait for spot, and when to look at them again."""

    actions: tuple[Action, ...] = ()
    blocker: Blocker | None = None
    look_at: datetime | None = None


def relieve(seen: Seen) -> Relief:
    waiting = [(since, replica) for replica in seen.replicas if (since := waiting_since(replica)) is not None]
    if not waiting:
        return Relief()
    waiting.sort(key=lambda entry: (entry[0], entry[1].pod.name))
    patience = seen.settings.spot_fallback_after
    overdue = [replica for since, replica in waiting if seen.now >= since + patience]
    look_at = min((since + patience for since, _ in waiting if seen.now < since + patience), default=None)
    if not overdue:
        return Relief(look_at=look_at)
    record = holdback_of(seen.workload.uid, seen.view, seen.settings)
    count = f"{len(overdue)} pods of {seen.key}" if len(overdue) > 1 else f"pod {overdue[0].pod.name} of {seen.key}"
    why = Reason("SpotShortage", f"{count} found no spot node for {format_duration(patience)}")
    if record is None or seen.now >= record.until:
        # Written, and seen in the view, before anyone is replaced: admission reads it there.
        write = hold_back(seen.workload.uid, seen.view, seen.now, seen.settings, workload=seen.key, why=why)
        return Relief((write,), look_at=look_at)
    left, more_at = _replacements_left(seen)
    blocker = None
    if len(overdue) > left:
        message = f"{len(overdue) - left} pods that found no spot node wait to be replaced"
        blocker = Blocker("FallbackLimit", f"{message}: {seen.settings.max_fallbacks_per_minute} a minute", more_at)
    return Relief(tuple(_replace(replica, seen, why) for replica in overdue[:left]), blocker, look_at)


def waiting_since(replica: Replica) -> datetime | None:
    """Since when a pod of class spot has found no node; None for any other pod."""
    pod = replica.pod
    if replica.bound or pod.status.nominated_node_name or marked_class(pod) is not CapacityClass.SPOT:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return condition.last_transition_time or pod.metadata.creation_timestamp
    return None


def _replacements_left(seen: Seen) -> tuple[int, datetime]:
    """How many may be replaced now: those that came as replacements within a minute are there to be counted."""
    since = seen.now - MINUTE
    recent = sorted(
        created
        for replica in seen.replicas
        if replica.pod.annotations.get(REASON) == Why.HELD_BACK.value
        and (created := replica.pod.metadata.creation_timestamp) is not None
        and created > since
    )
    left = max(0, seen.settings.max_fallbacks_per_minute - len(recent))
    return left, (recent[0] if recent else seen.now) + MINUTE


def _replace(replica: Replica, seen: Seen, why: Reason) -> Evict:
    pod: Pod = replica.pod
    event = Event(seen.ref, "SpotFallback", f"pod {pod.name} found no spot node and is replaced on-demand", "Warning")
    return Evict(Ref.to(PODS, pod), seen.key, why, event=event)
