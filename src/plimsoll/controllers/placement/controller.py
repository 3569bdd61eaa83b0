"""The placement controller: from a workload to a decision about its split.

Urgent work comes first (pods without a spot node, nodes about to be removed), then moves, one at a time by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct, field

from plimsoll.controllers.placement import report
from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.rebalance.candidates import moves
from plimsoll.controllers.placement.rebalance.capacity_check import CapacityCheck, Destinations
from plimsoll.controllers.placement.rebalance.interruption import plan_interruption
from plimsoll.controllers.placement.rebalance.move_checks import Move, blockers, moves_at_once
from plimsoll.controllers.placement.rebalance.next_action import NextAction, ReplicaState
from plimsoll.controllers.placement.replica_counts import Counts
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED
from plimsoll.controllers.placement.spot_backoff import (
    plan_release,
    plan_spot_fallback,
    unproven_spot_blocker,
    workloads_in,
)
from plimsoll.controllers.placement.target import CapacityClass, Target
from plimsoll.controllers.placement.workload import (
    MINIMUM_TOO_HIGH,
    Managed,
    Unmanaged,
    evaluate_workload,
    key_of,
    namespace_exclusion,
    parse_workload,
    workload_at,
    workload_of,
)
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.entries import KIND, Disruptions, read_entry
from plimsoll.disruption.opt_out import invalid_opt_outs
from plimsoll.kube.cache.pdb_index import workloads_under
from plimsoll.kube.cache.store import View
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.core import ConfigMap, Namespace, Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_NODE,
    BY_TEMPLATE_LABEL,
    CLAIMS,
    CSI_NODES,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    STORAGE_CLASSES,
    VOLUMES,
    Key,
    Resource,
    label_in,
)
from plimsoll.runtime.decision import Action, Blocker, Decision, Event, Evict, Permission, Reason, Ref
from plimsoll.runtime.phrases import counted
from plimsoll.scheduling.growth_options import NodeProvisioner


class PlacementDecision(Decision, frozen=True, kw_only=True):
    """A decision about one workload, with the counts that it is based on."""

    target: Target | None = None  # None: the workload is not managed
    current: Counts | None = None
    state: ReplicaState | None = None  # with both drifts; pods on nodes that are about to be removed count as gone
    action: NextAction = NextAction.NONE
    moving: tuple[str, ...] = ()  # pods to be moved, the next one first


class _MinimumErrors(Struct):
    """The replica counts below the minimum that were reported for one workload."""

    uid: str
    minimum: int
    reported: set[int] = field(default_factory=set)
    current: int | None = None  # the count that is reported now


class PlacementState:
    """What the controller keeps between decisions. A restart loses it; decisions are then only less careful.

    provisioner: adds nodes where the existing ones have no room; None: nobody does.
    """

    def __init__(self, settings: PlacementSettings, provisioner: NodeProvisioner | None = None) -> None:
        self.capacity = CapacityCheck(settings.rules, provisioner)  # with the reservations of moves under way
        self.disruptions = Disruptions(settings.memory)  # caches what it read from ConfigMaps
        self._minimum_errors: dict[Key, _MinimumErrors] = {}

    def is_known_minimum_error(self, key: Key, workload: Deployment | StatefulSet, minimum: int) -> bool:
        """Whether a minimum above this replica count was reported before, and was resolved since.

        An HPA that comes back to the same count every night is reported once. A new minimum or another count is reported.
        """
        errors = self._minimum_errors.get(key)
        if errors is None or (errors.uid, errors.minimum) != (workload.uid, minimum):
            errors = self._minimum_errors[key] = _MinimumErrors(workload.uid, minimum)
        count = workload.spec.replicas
        if count == errors.current:
            return False
        known = count in errors.reported
        errors.reported.add(count)
        errors.current = None if known else count
        return known

    def minimum_is_met(self, key: Key) -> None:
        if (errors := self._minimum_errors.get(key)) is not None:
            errors.current = None

    def forget(self, key: Key) -> None:
        self._minimum_errors.pop(key, None)


class PlacementController:
    name: ClassVar[str] = "placement"
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission("", "pods", "get"),
        Permission("", "pods/eviction", "create"),
    )

    def __init__(self, settings: PlacementSettings, state: PlacementState | None = None) -> None:
        """state: what decisions keep for later ones; None: a new one, without a provisioner of nodes."""
        self._settings = settings
        self._state = state or PlacementState(settings)

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        return (
            DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES,
            STORAGE_CLASSES, CSI_NODES,
            self._settings.memory,
        )  # fmt: skip

    # ── the keys of a change ─────────────────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case Deployment() | StatefulSet():
                return (key_of(changed),) if _has_enabled(changed) else ()
            case ReplicaSet() | Pod():
                return _keys_above(changed, view)
            case Node():
                return {key for pod in view[PODS].by(BY_NODE, changed.name) for key in _keys_above(pod, view)}
            case PodDisruptionBudget():
                return [key_of(workload) for workload in workloads_under(changed, view) if _has_enabled(workload)]
            case Namespace():
                return [key_of(workload) for workload in _workloads_in(changed.name, view)]
            case ConfigMap():
                return {*workloads_in(changed), *_disrupted_workloads(changed)}
            case _:
                return ()

    # ── the decision ─────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> PlacementDecision:
        workload = workload_at(key, view)
        if workload is None:
            self._state.forget(key)
            return PlacementDecision(reason=Reason("Gone", f"{key} is gone"), forget=True)
        settings = self._settings
        verdict = namespace_exclusion(workload.namespace, view, settings) or evaluate_workload(workload, settings)
        if isinstance(verdict, Managed) or verdict.reason.code != MINIMUM_TOO_HIGH:
            self._state.minimum_is_met(key)
        if isinstance(verdict, Unmanaged):
            return self._decide_unmanaged(key, workload, verdict, view, now)
        return self._decide_managed(WorkloadState(verdict, view, now, settings, self._state.disruptions))

    def _decide_unmanaged(
        self, key: Key, workload: Deployment | StatefulSet, verdict: Unmanaged, view: View, now: datetime
    ) -> PlacementDecision:
        """Report errors of the author, and release pending pods that still ask for a class."""
        about = Ref.to(STATEFULSETS if isinstance(workload, StatefulSet) else DEPLOYMENTS, workload)
        report_it = verdict.is_user_error
        if verdict.reason.code == MINIMUM_TOO_HIGH:
            parsed = parse_workload(workload, self._settings)
            minimum = parsed.policy.share.min_on_demand if parsed.policy is not None else 0
            report_it = not self._state.is_known_minimum_error(key, workload, minimum)
        released = plan_release(about, workload, view, now, self._settings)
        return PlacementDecision(
            reason=released.actions[0].why if released.actions else verdict.reason,
            actions=released.actions,
            in_order=False,
            requeue_after=max(released.check_at - now, timedelta(0)) if released.check_at is not None else None,
            problems=(report.unmanageable(about, verdict.reason),) if report_it else (),
        )

    def _decide_managed(self, state: WorkloadState) -> PlacementDecision:
        fallback, interruption = plan_spot_fallback(state), plan_interruption(state)
        rebalancing = self._rebalance(state)
        urgent: tuple[Action, ...] = (*fallback.actions, *interruption.evictions)
        blocking = (*interruption.blockers, *([fallback.blocker] if fallback.blocker else []), *rebalancing.blockers)
        actions = urgent or tuple(_evict(move, state, rebalancing.destinations) for move in rebalancing.now)
        if not urgent and rebalancing.now and rebalancing.destinations.replacements:
            self._state.capacity.reserve(state, rebalancing.now, rebalancing.destinations)
        action = rebalancing.action
        return PlacementDecision(
            reason=_reason(state, actions, blocking, action),
            actions=actions,
            in_order=False,
            blockers=blocking,
            requeue_after=_requeue_after(state, blocking, fallback.check_at, busy=bool(actions)),
            problems=(
                *report.namespace_problems(state),
                *report.other_installations(state),
                *invalid_opt_outs((replica.pod for replica in state.replicas), state.now),
            ),
            gauges=tuple(report.gauges(state)),
            counts=tuple(report.counts(state, action, acted=bool(actions), blockers=blocking, move=rebalancing.first)),
            target=state.managed.target,
            current=state.counts,
            state=state.replica_state,
            action=action,
            moving=tuple(move.replica.pod.name for move in rebalancing.wanted),
        )

    def _rebalance(self, state: WorkloadState) -> _Rebalancing:
        wanted = moves(state)
        if not wanted:
            action = state.replica_state.next_action()
            migrating = action in (NextAction.MIGRATE_TO_SPOT, NextAction.MIGRATE_TO_ON_DEMAND)
            if not migrating:
                return _Rebalancing(action)
            return _Rebalancing(action, blockers=(_nothing_movable(state, action),))
        first = wanted[0]
        spot = first.to is CapacityClass.SPOT
        action = NextAction.MIGRATE_TO_SPOT if spot else NextAction.MIGRATE_TO_ON_DEMAND
        found = blockers(state, first)
        if found:
            return _Rebalancing(action, wanted, blockers=found)
        together = [move for move in wanted if move.to is first.to][: moves_at_once(state, first)]
        destinations = self._state.capacity.find_destinations(state, together)
        while isinstance(destinations, Blocker) and len(together) > 1:
            together = together[: len(together) // 2]
            destinations = self._state.capacity.find_destinations(state, together)
        if not isinstance(destinations, Blocker):
            return _Rebalancing(action, wanted, now=together, destinations=destinations)
        if not self._settings.external_autoscaler:
            return _Rebalancing(action, wanted, blockers=(destinations,))
        # Another autoscaler may add the node. That is an assumption, so it is tried with one replica, and not during a shortage.
        shortage = unproven_spot_blocker(state) if spot and first.replica.pod.ready else None
        return (
            _Rebalancing(action, wanted, blockers=(shortage,))
            if shortage
            else _Rebalancing(action, wanted, now=[first])
        )


class _Rebalancing(Struct, frozen=True):
    action: NextAction
    wanted: Sequence[Move] = ()
    now: Sequence[Move] = ()
    destinations: Destinations = Destinations()  # of the replacements of `now`
    blockers: tuple[Blocker, ...] = ()

    @property
    def first(self) -> Move | None:
        return self.wanted[0] if self.wanted else None


def _evict(move: Move, state: WorkloadState, destinations: Destinations) -> Evict:
    pod, split = move.replica.pod, state.replica_state
    message = (
        f"pod {pod.name} moves from {move.replica.capacity_class.value} to {move.to.value}: {split.current_spot} on spot and "
        f"{split.current_on_demand} on-demand, {split.desired.spot} and {split.desired.on_demand} are wanted"
    )
    if pod.uid in destinations.coming:
        message += f"; no {move.to.value} node has room, and {destinations.coming[pod.uid]}"
    minimum = state.managed.policy.share.min_on_demand
    if state.is_stateful_set and move.to is CapacityClass.ON_DEMAND and split.current_on_demand < minimum:
        message += f"; fewer than the minimum of {minimum} are on-demand: a StatefulSet loses its highest ordinals, whatever the class"
    code = "MigratingToSpot" if move.to is CapacityClass.SPOT else "MigratingToOnDemand"
    event = Event(state.ref, code, message)
    return Evict(Ref.to(PODS, pod), state.key, Reason(code, message), within=state.settings.migrations, event=event)


def _reason(state: WorkloadState, actions: Sequence[Action], blocking: Sequence[Blocker], action: NextAction) -> Reason:
    if actions:
        return actions[0].why
    if blocking:
        return Reason("Blocked", f"{action.value}: " + "; ".join(blocker.message for blocker in blocking))
    target, counts = state.managed.target, state.counts
    split = f"{counts.spot} on spot and {counts.on_demand} on-demand, {target.spot} and {target.on_demand} are wanted"
    pending = [replica for replica in state.replicas if not replica.bound]
    if pending:
        split += f"; {counted(len(pending), 'pod')} without a node, such as {pending[0].pod.name}"
    settled = action is NextAction.NONE and not pending
    return Reason("Settled" if settled else "Waiting", f"{action.value}: {split}")


def _nothing_movable(state: WorkloadState, action: NextAction) -> Blocker:
    """Why no replica of the class in excess can move: some have no node, are about to lose it, or opt out."""
    surplus = CapacityClass.ON_DEMAND if action is NextAction.MIGRATE_TO_SPOT else CapacityClass.SPOT
    of_class = [replica for replica in state.replicas if replica.capacity_class is surplus]
    pending = [replica.pod.name for replica in of_class if not replica.bound]
    if pending:
        message = f"{counted(len(pending), 'pod')} of class {surplus.value} without a node, such as {pending[0]}"
        return Blocker("ReplicasPending", f"{message}; nothing moves before it is scheduled")
    message = (
        f"every {surplus.value} replica opts out of disruption by an annotation, or its node is about to be removed"
    )
    return Blocker("NothingMovable", message)


def _requeue_after(
    state: WorkloadState, blocking: Iterable[Blocker], at: datetime | None, *, busy: bool
) -> timedelta | None:
    """When the first blocker ends; retry_interval for a blocker without an end."""
    unknown = state.now + state.settings.retry_interval
    moments = [blocker.until if blocker.until is not None else unknown for blocker in blocking]
    if at is not None:
        moments.append(at)
    if busy:
        moments.append(state.now + max(state.settings.cooldown, timedelta(seconds=1)))
    return max(min(moments) - state.now, timedelta(0)) if moments else None


def _has_enabled(workload: KubeObject) -> bool:
    """Whether the workload mentions placement at all; cheap, because it runs for every pod that changes."""
    return ENABLED in workload.annotations or ENABLED in workload.labels


def _keys_above(obj: Pod | ReplicaSet, view: View) -> tuple[Key, ...]:
    """The workload of a pod or ReplicaSet, if it mentions placement or the pod is pending with a class of ours."""
    workload = workload_of(obj, view)
    if workload is None:
        return ()
    leftover = isinstance(obj, Pod) and not obj.spec.node_name and CLASS in obj.annotations
    return (key_of(workload),) if leftover or _has_enabled(workload) else ()


def _workloads_in(namespace: str, view: View) -> Iterable[Deployment | StatefulSet]:
    everywhere = label_in(namespace)
    yield from filter(_has_enabled, view[DEPLOYMENTS].by(BY_TEMPLATE_LABEL, everywhere))
    yield from filter(_has_enabled, view[STATEFULSETS].by(BY_TEMPLATE_LABEL, everywhere))


def _disrupted_workloads(shard: ConfigMap) -> Iterable[Key]:
    if shard.labels.get(LABEL) == KIND:
        for text in shard.data.values():
            if (entry := read_entry(text)) is not None:
                yield entry.workload
