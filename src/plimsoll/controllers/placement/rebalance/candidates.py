"""The replicas that should move to the other class, in the order in which they move.

The controller and `explain` call `moves`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from plimsoll.controllers.placement.rebalance.move_checks import Move, minimum_blocker
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.opt_out import pod_opt_out, prefers_to_stay
from plimsoll.kube.types.core import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def moves(state: WorkloadState) -> list[Move]:
    """Every move that brings the workload closer to its target, the next one first."""
    if state.is_stateful_set:
        return _misplaced(state)
    action = state.replica_state.next_action()
    if action is NextAction.MIGRATE_TO_SPOT:
        surplus, to, excess = CapacityClass.ON_DEMAND, CapacityClass.SPOT, state.replica_state.on_demand_drift
    elif action is NextAction.MIGRATE_TO_ON_DEMAND:
        surplus, to, excess = CapacityClass.SPOT, CapacityClass.ON_DEMAND, state.replica_state.spot_drift
    else:
        return []
    able = [r for r in state.replicas if r.capacity_class is surplus and r.bound and r.interrupted_by is None]
    able.sort(key=_least_disruptive_first)
    return [Move(replica, to) for replica in able if pod_opt_out(replica.pod, state.now) is None][:excess]


def _misplaced(state: WorkloadState) -> list[Move]:
    """A StatefulSet's pods on the wrong class, the highest ordinal first.

    Where the minimum forbids to move an on-demand pod, the pods that become on-demand come first: else two pods that should
    swap classes would wait for each other for ever.
    """
    found = []
    for replica in state.replicas:
        wanted = state.managed.class_of_ordinal(replica.pod.name)
        if (
            wanted is None
            or replica.capacity_class is wanted
            or not replica.bound
            or replica.interrupted_by is not None
        ):
            continue
        if pod_opt_out(replica.pod, state.now) is None:
            found.append(Move(replica, wanted))
    found.sort(key=lambda move: int(move.replica.pod.name.rpartition("-")[2]), reverse=True)
    return sorted(found, key=lambda move: minimum_blocker(state, move) is not None)


def _least_disruptive_first(replica: Replica) -> tuple[bool, int, float, str]:
    """Sort key: pods that prefer no eviction last, then by deletion cost, then the most recently ready first."""
    pod = replica.pod
    since = pod.ready_since or pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return prefers_to_stay(pod), _cost(pod), -since.timestamp(), pod.name


def _cost(pod: Pod) -> int:
    try:
        return int(pod.annotations.get(DELETION_COST, "0")[:12])
    except ValueError:
        return 0  # as Kubernetes treats an invalid value
