"""From a workload to what is done about its split now: pods that wait for spot, nodes that go, then one move at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct

from plimsoll.controllers.placement import report
from plimsoll.controllers.placement.rebalance.candidates import moves
from plimsoll.controllers.placement.rebalance.capacity_check import Places, Rooms
from plimsoll.controllers.placement.rebalance.guards import Move, blockers, room_for
from plimsoll.controllers.placement.rebalance.interruption import rescue
from plimsoll.controllers.placement.rebalance.next_action import NextAction, ReplicaState
from plimsoll.controllers.placement.replica_counts import Counts
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED
from plimsoll.controllers.placement.spot_backoff import workloads_in
from plimsoll.controllers.placement.spot_shortage import relieve
from plimsoll.controllers.placement.target import CapacityClass, Target
from plimsoll.controllers.placement.workload import Unmanaged, judge, key_of, out_of_bounds, workload_at, workload_of
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.disruption.entries import KIND, LABEL, Disruptions, read_entry
from plimsoll.kube.cache.pdb_index import workloads_under
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Deployment, KubeObject, Namespace, Node, Pod, ReplicaSet, StatefulSet
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_NODE,
    BY_TEMPLATE_LABEL,
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Key,
    Resource,
    label_in,
)
from plimsoll.kube.types.stored import ConfigMap
from plimsoll.runtime.decision import Action, Blocker, Decision, Event, Evict, Permission, Reason, Ref
from plimsoll.scheduling.growth_options import NodeMaker


class PlacementDecision(Decision, frozen=True, kw_only=True):
    """What is done about one workload, and what was seen of it."""

    target: Target | None = None  # None: not managed
    current: Counts | None = None
    state: ReplicaState | None = None  # with both drifts; pods on nodes that are about to go count as gone
    action: NextAction = NextAction.NONE
    moving: tuple[str, ...] = ()  # pods on the wrong class, the next to move first


class PlacementController:
    name: ClassVar[str] = "placement"
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission("", "pods", "get"),
        Permission("", "pods/eviction", "create"),
    )

    def __init__(self, settings: PlacementSettings, maker: NodeMaker | None = None) -> None:
        """maker: who brings further nodes where those at hand are not enough; None: nobody that we know of."""
        self._settings = settings
        self._rooms = Rooms(settings.rules, maker)
        self._disruptions = Disruptions(settings.memory)

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        return (
            DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES,
            self._settings.memory,
        )  # fmt: skip

    # ── which workloads does a change concern? ───────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case Deployment() | StatefulSet():
                return (key_of(changed),) if _asks(changed) else ()
            case ReplicaSet() | Pod():
                return _above(changed, view)
            case Node():
                return {key for pod in view[PODS].by(BY_NODE, changed.name) for key in _above(pod, view)}
            case PodDisruptionBudget():
                return [key_of(workload) for workload in workloads_under(changed, view) if _asks(workload)]
            case Namespace():
                return [key_of(workload) for workload in _asking_in(changed.name, view)]
            case ConfigMap():
                return {*workloads_in(changed), *_disrupted(changed)}
            case _:
                return ()

    # ── what is to be done about one? ────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> PlacementDecision:
        workload = workload_at(key, view)
        if workload is None:
            return PlacementDecision(reason=Reason("Gone", f"{key} is gone"), forget=True)
        verdict = out_of_bounds(workload.namespace, view, self._settings) or judge(workload, self._settings)
        if isinstance(verdict, Unmanaged):
            about = Ref.to(STATEFULSETS if isinstance(workload, StatefulSet) else DEPLOYMENTS, workload)
            problems = (report.unmanageable(about, verdict.reason),) if verdict.at_fault else ()
            return PlacementDecision(reason=verdict.reason, problems=problems)
        return self._about(Seen(verdict, view, now, self._settings, self._disruptions))

    def _about(self, seen: Seen) -> PlacementDecision:
        relief, saving = relieve(seen), rescue(seen)
        rebalancing = self._rebalance(seen)
        urgent: tuple[Action, ...] = (*relief.actions, *saving.evictions)
        held_up = (*saving.blockers, *([relief.blocker] if relief.blocker else []), *rebalancing.blockers)
        actions = urgent or tuple(_evict(move, seen, rebalancing.places) for move in rebalancing.now)
        if not urgent and rebalancing.now and not self._settings.external_autoscaler:
            self._rooms.promise(seen, rebalancing.now, rebalancing.places)
        action = rebalancing.action
        return PlacementDecision(
            reason=_reason(seen, actions, held_up, action),
            actions=actions,
            in_order=False,
            blockers=held_up,
            requeue_after=_look_again(seen, held_up, relief.look_at, busy=bool(actions)),
            problems=(*report.namespace_problems(seen), *report.other_installations(seen)),
            gauges=tuple(report.gauges(seen)),
            counts=tuple(report.counts(seen, action, acted=bool(actions), blockers=held_up, move=rebalancing.first)),
            target=seen.managed.target,
            current=seen.counts,
            state=seen.state,
            action=action,
            moving=tuple(move.replica.pod.name for move in rebalancing.wanted),
        )

    def _rebalance(self, seen: Seen) -> _Rebalancing:
        wanted = moves(seen)
        if not wanted:
            action = seen.state.next_action()
            migrating = action in (NextAction.MIGRATE_TO_SPOT, NextAction.MIGRATE_TO_ON_DEMAND)
            if not migrating or seen.ordinal:
                return _Rebalancing(NextAction.NONE if migrating else action)
            message = "every replica that could move says that it must not be moved, or has no node yet"
            return _Rebalancing(action, blockers=(Blocker("NothingMovable", message),))
        first = wanted[0]
        spot = first.to is CapacityClass.SPOT
        action = NextAction.MIGRATE_TO_SPOT if spot else NextAction.MIGRATE_TO_ON_DEMAND
        standing = blockers(seen, first)
        if standing:
            return _Rebalancing(action, wanted, blockers=standing)
        together = [move for move in wanted if move.to is first.to][: room_for(seen, first)]
        if self._settings.external_autoscaler:
            return _Rebalancing(action, wanted, now=together)
        places = self._rooms.places_for(seen, together)
        while isinstance(places, Blocker) and len(together) > 1:
            together = together[: len(together) // 2]
            places = self._rooms.places_for(seen, together)
        if isinstance(places, Blocker):
            return _Rebalancing(action, wanted, blockers=(places,))
        return _Rebalancing(action, wanted, now=together, places=places)


class _Rebalancing(Struct, frozen=True):
    action: NextAction
    wanted: Sequence[Move] = ()
    now: Sequence[Move] = ()
    places: Places = Places()  # for the replacements of `now`
    blockers: tuple[Blocker, ...] = ()

    @property
    def first(self) -> Move | None:
        return self.wanted[0] if self.wanted else None


def _evict(move: Move, seen: Seen, places: Places) -> Evict:
    pod, state = move.replica.pod, seen.state
    message = (
        f"pod {pod.name} moves from {move.replica.capacity_class.value} to {move.to.value}: {state.current_spot} on spot and "
        f"{state.current_on_demand} on-demand, {state.desired.spot} and {state.desired.on_demand} are wanted"
    )
    if pod.uid in places.to_come:
        message += f"; no {move.to.value} node has room, and {places.to_come[pod.uid]}"
    code = "MigratingToSpot" if move.to is CapacityClass.SPOT else "MigratingToOnDemand"
    event = Event(seen.ref, code, message)
    return Evict(Ref.to(PODS, pod), seen.key, Reason(code, message), within=seen.settings.migrations, event=event)


def _reason(seen: Seen, actions: Sequence[Action], held_up: Sequence[Blocker], action: NextAction) -> Reason:
    if actions:
        return actions[0].why
    if held_up:
        return Reason("Blocked", f"{action.value}: " + "; ".join(blocker.message for blocker in held_up))
    target, counts = seen.managed.target, seen.counts
    split = f"{counts.spot} on spot and {counts.on_demand} on-demand, {target.spot} and {target.on_demand} are wanted"
    return Reason("Settled" if action is NextAction.NONE else "Waiting", f"{action.value}: {split}")


def _look_again(seen: Seen, held_up: Iterable[Blocker], at: datetime | None, *, busy: bool) -> timedelta | None:
    """When the first of what stands in the way is over; where that is unknown, after a while."""
    unknown = seen.now + seen.settings.retry_interval
    moments = [blocker.until if blocker.until is not None else unknown for blocker in held_up]
    if at is not None:
        moments.append(at)
    if busy:
        moments.append(seen.now + max(seen.settings.cooldown, timedelta(seconds=1)))
    return max(min(moments) - seen.now, timedelta(0)) if moments else None


def _asks(workload: KubeObject) -> bool:
    """Whether anything at all is said about placement; cheap enough to ask for every pod that changes."""
    return ENABLED in workload.annotations or ENABLED in workload.labels


def _above(obj: Pod | ReplicaSet, view: View) -> tuple[Key, ...]:
    workload = workload_of(obj, view)
    return (key_of(workload),) if workload is not None and _asks(workload) else ()


def _asking_in(namespace: str, view: View) -> Iterable[Deployment | StatefulSet]:
    everywhere = label_in(namespace)
    yield from filter(_asks, view[DEPLOYMENTS].by(BY_TEMPLATE_LABEL, everywhere))
    yield from filter(_asks, view[STATEFULSETS].by(BY_TEMPLATE_LABEL, everywhere))


def _disrupted(shard: ConfigMap) -> Iterable[Key]:
    if shard.labels.get(LABEL) == KIND:
        for text in shard.data.values():
            if (entry := read_entry(text)) is not None:
                yield entry.workload
