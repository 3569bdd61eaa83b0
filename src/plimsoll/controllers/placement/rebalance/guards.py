"""What must hold before a replica that runs is moved. Each guard is one function: what stands in the way, and until when.

The door asks the most important of them again at the moment of the eviction, of a live pod and a live budget.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.placement.annotations import PLACED_BY, marked_class
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.spec import Fault, read_window
from plimsoll.controllers.placement.spot_backoff import held_back, one_at_a_time
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.window import DisruptionWindow
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import format_duration
from plimsoll.kube.types.resources import NAMESPACES
from plimsoll.runtime.decision import Blocker


class Move(Struct, frozen=True):
    """A replica that should run on the other class."""

    replica: Replica
    to: CapacityClass


# How soon after a move whose replacement did not go where it was sent, or that someone else placed, another one may show
# whether that is still so.
RETRY_AFTER = timedelta(minutes=10)

Guard = Callable[[Seen, Move], Blocker | None]


def webhook_is_there(seen: Seen, _: Move) -> Blocker | None:
    if seen.settings.webhook:
        return None
    message = "new pods are given no class, so a move would be one to anywhere; set webhook.mode to service or url"
    return Blocker("NoWebhook", message)


def nobody_else_places(seen: Seen, _: Move) -> Blocker | None:
    """Whoever admits a workload's pods decides where they go: moving them by other settings would be churn without end."""
    other = placed_by_another(seen)
    if other is None:
        return None
    made = other.metadata.creation_timestamp or seen.now
    message = (
        f"pod {other.name} was given its class by another installation, in namespace {other.annotations[PLACED_BY]}"
    )
    return Blocker("AnotherInstallation", message, made + RETRY_AFTER)


def placed_by_another(seen: Seen) -> Pod | None:
    """The newest replica that another installation gave its class lately. What one left that is gone is soon no longer new."""
    since = seen.now - RETRY_AFTER
    lately = [
        (made, replica.pod)
        for replica in seen.replicas
        if replica.pod.annotations.get(PLACED_BY, seen.settings.installation) != seen.settings.installation
        and (made := replica.pod.metadata.creation_timestamp) is not None
        and made > since
    ]
    return max(lately, key=lambda one: (one[0], one[1].name))[1] if lately else None


def rollout_complete(seen: Seen, _: Move) -> Blocker | None:
    workload, status = seen.workload, seen.workload.status
    if status.observed_generation < workload.metadata.generation:
        return Blocker("RolloutInProgress", "its latest change has not been taken up by Kubernetes yet")
    if seen.ordinal:
        if status.current_revision != status.update_revision:
            # An eviction would apply the pending update to this pod, whatever partition or strategy holds it back.
            message = f"revision {status.update_revision} has not replaced {status.current_revision} everywhere"
            return Blocker("RolloutInProgress", message)
        return None
    if status.updated_replicas < workload.spec.replicas or status.replicas > status.updated_replicas:
        updated = f"{status.updated_replicas} of {workload.spec.replicas} replicas are of the newest version"
        return Blocker("RolloutInProgress", f"{updated}, {status.replicas} are there in all")
    return None


def every_replica_ready(seen: Seen, _: Move) -> Blocker | None:
    if seen.missing < at_once(seen):
        return None
    wanted = seen.workload.spec.replicas
    return Blocker("ReplicasNotReady", f"{wanted - seen.missing} of {wanted} replicas are available")


def minimum_stays(seen: Seen, move: Move) -> Blocker | None:
    minimum, ready = seen.managed.policy.share.min_on_demand, seen.counts.ready_on_demand
    if move.to is CapacityClass.ON_DEMAND or ready - 1 >= minimum:
        return None
    return Blocker("MinimumOnDemand", f"{ready} on-demand replicas are ready, and {minimum} must be")


def someone_stays_ready(seen: Seen, move: Move) -> Blocker | None:
    others = seen.counts.ready - move.replica.stays_ready
    return None if others > 0 else Blocker("LastReady", f"pod {move.replica.pod.name} is the only ready one")


def spot_is_not_held_back(seen: Seen, move: Move) -> Blocker | None:
    if move.to is CapacityClass.ON_DEMAND:
        return None
    return held_back(seen.workload.uid, seen.replicas, seen.view, seen.now, seen.settings)


def budget_allows(seen: Seen, move: Move) -> Blocker | None:
    return seen.allowance(move.replica.pod).blocker


def replacements_obey(seen: Seen, _: Move) -> Blocker | None:
    """A replacement that admission did not see, or that someone sent elsewhere: moving on would be churn without end."""
    last = _last_disruption(seen)
    if last is None or seen.now >= last + RETRY_AFTER:
        return None
    since = [r for r in seen.replicas if (made := r.pod.metadata.creation_timestamp) is not None and made >= last]
    astray = [replica for replica in since if marked_class(replica.pod) is not replica.capacity_class]
    if not since or len(astray) < len(since):
        return None
    name, mark = astray[0].pod.name, marked_class(astray[0].pod)
    if mark is None:
        message = f"pod {name}, which replaced one that was moved, was not seen by admission: is the webhook there?"
        return Blocker("AdmissionAbsent", message, last + RETRY_AFTER)
    where = astray[0].capacity_class.value
    message = (
        f"pod {name} replaced one that was moved, was given {mark.value} and runs {where}: someone undoes our moves"
    )
    return Blocker("MovesUndone", message, last + RETRY_AFTER)


def cooled_down(seen: Seen, _: Move) -> Blocker | None:
    cooldown = seen.settings.cooldown
    last = _last_disruption(seen)
    if last is None:
        return None
    until = min(last, seen.now) + cooldown  # a clock that was ahead makes a disruption young, never younger than now
    if until <= seen.now:
        return None
    return Blocker("Cooldown", f"one of its pods was asked to leave less than {format_duration(cooldown)} ago", until)


def window_is_open(seen: Seen, _: Move) -> Blocker | None:
    window, faults, whose = window_of(seen)
    if faults:
        # What cannot be read is not taken for a permission.
        return Blocker("InvalidWindow", f"{whose}: {'; '.join(str(fault) for fault in faults)}")
    if window is None or window.is_open(seen.now):
        return None
    return Blocker(
        "WindowClosed", f"the disruption window of {whose}, {window}, is closed", window.changes_at(seen.now)
    )


def not_too_many_lately(seen: Seen, _: Move) -> Blocker | None:
    limits = seen.settings.migrations
    since = seen.now - limits.period
    for moments, limit, whose in (
        (seen.disruptions.to(seen.key, since), limits.per_workload, "this workload"),
        (seen.disruptions.to_all(since), limits.per_cluster, "the cluster"),
    ):
        if len(moments) >= limit:
            until = sorted(moments)[len(moments) - limit] + limits.period if limit else None
            message = f"{len(moments)} pods of {whose} were moved within {format_duration(limits.period)}"
            return Blocker("MigrationLimit", f"{message}, the limit is {limit}", until)
    return None


# In the order in which they are told. Whether there is room for the replacement is asked last, and only where nothing
# else stands in the way: it is the one question that costs something.
GUARDS: tuple[Guard, ...] = (
    webhook_is_there,
    nobody_else_places,
    rollout_complete,
    every_replica_ready,
    someone_stays_ready,
    minimum_stays,
    spot_is_not_held_back,
    budget_allows,
    window_is_open,
    cooled_down,
    replacements_obey,
    not_too_many_lately,
)


def blockers(seen: Seen, move: Move) -> tuple[Blocker, ...]:
    return tuple(blocker for guard in GUARDS if (blocker := guard(seen, move)) is not None)


def at_once(seen: Seen) -> int:
    """How many replicas may be missing for a move: one, or a share of them where it is configured."""
    return max(1, seen.workload.spec.replicas * seen.settings.moving_percentage // 100)


def room_for(seen: Seen, move: Move) -> int:
    """How many moves like this one the guards let through together, once they let one through."""
    limits = [at_once(seen) - seen.missing, seen.counts.ready - 1]
    allowed = seen.allowance(move.replica.pod).pods
    limits.append(1 if allowed is None else allowed)
    if move.to is CapacityClass.SPOT:
        limits.append(seen.counts.ready_on_demand - seen.managed.policy.share.min_on_demand)
        if one_at_a_time(seen.workload.uid, seen.replicas, seen.view, seen.now, seen.settings):
            limits.append(1)
    migrations = seen.settings.migrations
    since = seen.now - migrations.period
    limits.append(migrations.per_cluster - len(seen.disruptions.to_all(since)))
    limits.append(migrations.per_workload - len(seen.disruptions.to(seen.key, since)))
    return max(0, min(limits))


def _last_disruption(seen: Seen) -> datetime | None:
    return max(seen.disruptions.to(seen.key), default=None)


def window_of(seen: Seen) -> tuple[DisruptionWindow | None, tuple[Fault, ...], str]:
    """The window in force, what is wrong with it, and whose it is: the workload's, else the namespace's, else everyone's."""
    own = seen.managed.policy.window
    if own is not None:
        return own, (), str(seen.key)
    namespace = seen.view[NAMESPACES].get("", seen.workload.namespace)
    if namespace is not None:
        faults: list[Fault] = []
        shared = read_window(namespace.annotations, faults)
        if shared is not None or faults:
            return shared, tuple(faults), f"Namespace {namespace.name}"
    return seen.settings.window, (), "the operator"
