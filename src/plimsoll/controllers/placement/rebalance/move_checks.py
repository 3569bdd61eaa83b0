"""The checks that must pass before a running replica moves. Each check is one function that returns a blocker or None.

The controller runs `MOVE_CHECKS` for the next move, `explain` prints each by its public id. The actuator repeats the most
important ones against the live pod and the live budget at the moment of the eviction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.placement.annotations import PLACED_BY, assigned_class
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.spec import AnnotationProblem, read_window
from plimsoll.controllers.placement.spot_backoff import spot_blocker, spot_is_unproven
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.window import DisruptionWindow
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.last_ready import last_ready_blocker
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import format_duration
from plimsoll.kube.types.resources import NAMESPACES
from plimsoll.runtime.decision import Blocker


class Move(Struct, frozen=True):
    """A replica that should run on the other class."""

    replica: Replica
    to: CapacityClass


class MoveCheck(Struct, frozen=True):
    """A check and the id by which `explain` names it. Ids are public: changing one belongs in the changelog."""

    id: str
    find_blocker: Callable[[WorkloadState, Move], Blocker | None]


# After a move whose replacement ran elsewhere, or that another installation placed, the next move waits this long.
RETRY_AFTER = timedelta(minutes=10)
# This share of a workload's replicas may fail without blocking its moves.
TOLERATED_FAILING_PERCENTAGE = 5


def webhook_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    if state.settings.webhook:
        return None
    message = "webhook.mode is off, so that a replacement pod would get no class; set it to service or url"
    return Blocker("NoWebhook", message)


def other_installation_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    """Two installations with different settings would undo each other's moves without end."""
    other = recently_placed_elsewhere(state)
    if other is None:
        return None
    created = other.metadata.creation_timestamp or state.now
    message = f"pod {other.name} got its class from another installation, in namespace {other.annotations[PLACED_BY]}"
    return Blocker("AnotherInstallation", message, created + RETRY_AFTER)


def recently_placed_elsewhere(state: WorkloadState) -> Pod | None:
    """The newest replica that another installation placed within RETRY_AFTER; None if there is none."""
    since = state.now - RETRY_AFTER
    recent = [
        (created, replica.pod)
        for replica in state.replicas
        if replica.pod.annotations.get(PLACED_BY, state.settings.installation) != state.settings.installation
        and (created := replica.pod.metadata.creation_timestamp) is not None
        and created > since
    ]
    return max(recent, key=lambda one: (one[0], one[1].name))[1] if recent else None


def rollout_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    workload, status = state.workload, state.workload.status
    if status.observed_generation < workload.metadata.generation:
        return Blocker("RolloutInProgress", "Kubernetes has not observed the latest change of the workload yet")
    if state.is_stateful_set:
        # An eviction would apply the pending update to this pod, whatever strategy holds it back. `currentRevision` alone does not
        # tell: before Kubernetes 1.37 it never advances with OnDelete.
        if status.current_revision != status.update_revision and status.updated_replicas < workload.spec.replicas:
            updated = f"{status.updated_replicas} of {workload.spec.replicas} replicas are of revision {status.update_revision}"
            return Blocker("RolloutInProgress", updated)
        return None
    if status.updated_replicas < workload.spec.replicas or status.replicas > status.updated_replicas:
        updated = f"{status.updated_replicas} of {workload.spec.replicas} replicas are of the newest revision"
        return Blocker("RolloutInProgress", f"{updated}, and {status.replicas} exist in all")
    return None


def availability_blocker(state: WorkloadState, move: Move) -> Blocker | None:
    if _unavailable_for(state, move) < max_unavailable(state):
        return None
    wanted = state.workload.spec.replicas
    return Blocker("ReplicasNotReady", f"{wanted - state.unavailable} of {wanted} replicas are available")


def _unavailable_for(state: WorkloadState, move: Move) -> int:
    """Unavailable replicas that count against a move.

    The replica to be moved does not count if it is unready itself. Replicas that fail for other reasons than moves do not count
    up to a share of all, where a disruption budget watches over the rest; without one, one replica at a time is the rule.
    """
    unavailable = state.unavailable - (not move.replica.pod.ready)
    if not state.allowance(move.replica.pod).budget:
        return unavailable
    failing = sum(1 for one in state.replicas if one is not move.replica and one.failing(state.now))
    return unavailable - min(failing, state.workload.spec.replicas * TOLERATED_FAILING_PERCENTAGE // 100)


def minimum_blocker(state: WorkloadState, move: Move) -> Blocker | None:
    minimum, ready = state.managed.policy.share.min_on_demand, state.counts.ready_on_demand
    if move.to is CapacityClass.ON_DEMAND or ready - move.replica.stays_ready >= minimum:
        return None
    return Blocker("MinimumOnDemand", f"{ready} on-demand replicas are ready; the minimum is {minimum}")


def last_replica_blocker(state: WorkloadState, move: Move) -> Blocker | None:
    interrupted = {replica.pod.uid for replica in state.replicas if replica.interrupted_by is not None}
    pods = [replica.pod for replica in state.replicas]
    return last_ready_blocker(move.replica.pod, state.key, pods, interrupted)


def backoff_blocker(state: WorkloadState, move: Move) -> Blocker | None:
    if move.to is CapacityClass.ON_DEMAND:
        return None
    return spot_blocker(state.workload.uid, state.replicas, state.view, state.now, state.settings)


def budget_blocker(state: WorkloadState, move: Move) -> Blocker | None:
    return state.allowance(move.replica.pod).blocker


def replacement_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    """Stop moving while replacements do not run on the class they should: moves would follow each other without end."""
    last = _last_disruption(state)
    if last is None or state.now >= last + RETRY_AFTER:
        return None
    since = [r for r in state.replicas if (made := r.pod.metadata.creation_timestamp) is not None and made >= last]
    astray = [replica for replica in since if assigned_class(replica.pod) is not replica.capacity_class]
    if not since or len(astray) < len(since):
        return None
    name, assigned = astray[0].pod.name, assigned_class(astray[0].pod)
    if assigned is None:
        message = (
            f"replacement pod {name} has no class: the admission webhook did not see it; check that it is reachable"
        )
        return Blocker("AdmissionAbsent", message, last + RETRY_AFTER)
    where = astray[0].capacity_class.value
    message = f"replacement pod {name} was assigned {assigned.value} and runs on {where}: something undoes the moves"
    return Blocker("MovesUndone", message, last + RETRY_AFTER)


def cooldown_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    cooldown = state.settings.cooldown
    last = _last_disruption(state)
    if last is None:
        return None
    until = last + cooldown
    if until <= state.now:
        return None
    return Blocker("Cooldown", f"a pod of the workload was evicted less than {format_duration(cooldown)} ago", until)


def window_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    window, problems, whose = window_of(state)
    if problems:
        # An invalid window does not permit anything.
        return Blocker("InvalidWindow", f"{whose}: {'; '.join(str(problem) for problem in problems)}")
    if window is None or window.is_open(state.now):
        return None
    return Blocker(
        "WindowClosed", f"the disruption window of {whose}, {window}, is closed", window.changes_at(state.now)
    )


def migration_limit_blocker(state: WorkloadState, _: Move) -> Blocker | None:
    limits = state.settings.migrations
    since = state.now - limits.period
    for moments, limit, whose in (
        (state.disruptions.to(state.key, since), limits.per_workload, "this workload"),
        (state.disruptions.to_all(since), limits.per_cluster, "the cluster"),
    ):
        if len(moments) >= limit:
            until = sorted(moments)[len(moments) - limit] + limits.period if limit else None
            message = f"{len(moments)} pods of {whose} were moved within {format_duration(limits.period)}"
            return Blocker("MigrationLimit", f"{message}; the limit is {limit}", until)
    return None


# In the order in which they are reported. The capacity check runs last, only if these pass: it is the expensive one.
MOVE_CHECKS: tuple[MoveCheck, ...] = (
    MoveCheck("webhook is on", webhook_blocker),
    MoveCheck("no other installation", other_installation_blocker),
    MoveCheck("rollout complete", rollout_blocker),
    MoveCheck("enough replicas ready", availability_blocker),
    MoveCheck("another replica is ready", last_replica_blocker),
    MoveCheck("minimum on-demand kept", minimum_blocker),
    MoveCheck("no spot backoff", backoff_blocker),
    MoveCheck("disruption budget allows", budget_blocker),
    MoveCheck("window is open", window_blocker),
    MoveCheck("cooldown is over", cooldown_blocker),
    MoveCheck("replacements run on their class", replacement_blocker),
    MoveCheck("within migration limits", migration_limit_blocker),
)


def blockers(state: WorkloadState, move: Move) -> tuple[Blocker, ...]:
    return tuple(blocker for check in MOVE_CHECKS if (blocker := check.find_blocker(state, move)) is not None)


def max_unavailable(state: WorkloadState) -> int:
    """How many replicas may be unavailable because of moves: one, or placement.movingPercentage of them."""
    return max(1, state.workload.spec.replicas * state.settings.moving_percentage // 100)


def moves_at_once(state: WorkloadState, move: Move) -> int:
    """How many moves like this one may happen together, once every check has passed for one."""
    if not move.replica.pod.ready:
        return 1  # it serves nobody; the others are moved by later decisions
    limits = [max_unavailable(state) - _unavailable_for(state, move), state.counts.ready - 1]
    allowed = state.allowance(move.replica.pod).disruptions
    limits.append(1 if allowed is None else allowed)
    if move.to is CapacityClass.SPOT:
        limits.append(state.counts.ready_on_demand - state.managed.policy.share.min_on_demand)
        if spot_is_unproven(state.workload.uid, state.replicas, state.view, state.now, state.settings):
            limits.append(1)
    migrations = state.settings.migrations
    since = state.now - migrations.period
    limits.append(migrations.per_cluster - len(state.disruptions.to_all(since)))
    limits.append(migrations.per_workload - len(state.disruptions.to(state.key, since)))
    return max(0, min(limits))


def _last_disruption(state: WorkloadState) -> datetime | None:
    """The last disruption of the workload. A time further ahead than the cooldown is from a clock that was wrong: ignored."""
    latest = state.now + state.settings.cooldown
    return max((moment for moment in state.disruptions.to(state.key) if moment <= latest), default=None)


def window_of(state: WorkloadState) -> tuple[DisruptionWindow | None, tuple[AnnotationProblem, ...], str]:
    """The window in force, its problems, and whose it is: the workload's, else its namespace's, else the operator's."""
    own = state.managed.policy.window
    if own is not None:
        return own, (), str(state.key)
    namespace = state.view[NAMESPACES].get("", state.workload.namespace)
    if namespace is not None:
        problems: list[AnnotationProblem] = []
        shared = read_window(namespace.annotations, problems)
        if shared is not None or problems:
            return shared, tuple(problems), f"Namespace {namespace.name}"
    return state.settings.window, (), "the operator"
