"""Evict pods from nodes that are about to be removed (interrupted or torn down), before the node goes.

Budgets, the minimum and the last ready replica are respected; window and cooldown do not apply, because the node goes anyway.
"""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.last_ready import last_ready_blocker, one_at_a_time_blocker, ready_without
from plimsoll.disruption.opt_out import pod_opt_out
from plimsoll.disruption.pdb import allowance
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Blocker, Event, Evict, Reason, Ref


class InterruptionPlan(Struct, frozen=True):
    evictions: tuple[Evict, ...] = ()
    blockers: tuple[Blocker, ...] = ()


def plan_interruption(state: WorkloadState) -> InterruptionPlan:
    interrupted = [r for r in state.replicas if r.interrupted_by is not None and pod_opt_out(r.pod, state.now) is None]
    if not interrupted:
        return InterruptionPlan()
    evictions: list[Evict] = []
    blockers: dict[str, Blocker] = {}
    evicted: list[Replica] = []
    for replica in sorted(interrupted, key=lambda r: r.pod.name):
        blocker = _blocker(replica, evicted, state)
        if blocker is not None:
            blockers.setdefault(blocker.code, blocker)
            continue
        evicted.append(replica)
        evictions.append(_evict(replica, state))
    return InterruptionPlan(tuple(evictions), tuple(blockers.values()))


def _blocker(replica: Replica, evicted: list[Replica], state: WorkloadState) -> Blocker | None:
    """What forbids to evict this replica after those that are evicted by the same decision."""
    pod, pods = replica.pod, [one.pod for one in state.replicas]
    before = {one.pod.uid for one in evicted}
    if (blocker := last_ready_blocker(pod, state.key, pods, before)) is not None:
        return blocker
    minimum = state.managed.policy.share.min_on_demand
    on_demand = [one.pod for one in state.replicas if one.capacity_class is CapacityClass.ON_DEMAND]
    stays_ready = ready_without(pod, on_demand, before)
    if pod.ready and replica.capacity_class is CapacityClass.ON_DEMAND and stays_ready < minimum:
        message = f"without pod {pod.name}, {stays_ready} on-demand replicas are ready; min-on-demand is {minimum}"
        return Blocker("MinimumOnDemand", message)
    allowed = allowance(pod, state.view, [one.pod for one in evicted])
    if allowed.blocker is not None or allowed.budget:
        return allowed.blocker
    return one_at_a_time_blocker(pod, state.key, state.workload.spec.replicas, pods, before)


def _evict(replica: Replica, state: WorkloadState) -> Evict:
    pod = replica.pod
    message = (
        f"evicting pod {pod.name}: node {pod.spec.node_name} is about to be removed (taint {replica.interrupted_by})"
    )
    event = Event(state.ref, "NodeLeaving", message)
    return Evict(Ref.to(PODS, pod), state.key, Reason("NodeLeaving", message), event=event)
