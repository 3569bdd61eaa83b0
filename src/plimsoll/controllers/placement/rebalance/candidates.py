"""The replicas that should move to the other class, in the order in which they move.

The controller and `explain` call `moves`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from plimsoll.controllers.placement.rebalance.move_checks import Move
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import Managed
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.opt_out import pod_opt_out, prefers_to_stay
from plimsoll.kube.types.core import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def moves(state: WorkloadState) -> list[Move]:
    """Every move that brings the workload closer to its target, the next one first.

    Counts decide whether anything moves: the number of moves is the drift, and none is made while the total is wrong. Which
    replicas move is a matter of order only.
    """
    action = state.replica_state.next_action()
    if action is NextAction.MIGRATE_TO_SPOT:
        surplus, to, excess = CapacityClass.ON_DEMAND, CapacityClass.SPOT, state.replica_state.on_demand_drift
    elif action is NextAction.MIGRATE_TO_ON_DEMAND:
        surplus, to, excess = CapacityClass.SPOT, CapacityClass.ON_DEMAND, state.replica_state.spot_drift
    else:
        return []
    able = [r for r in state.replicas if r.capacity_class is surplus and r.bound and r.interrupted_by is None]
    if state.is_stateful_set:
        able.sort(key=lambda replica: _by_ordinal(replica, to, state.managed))
    else:
        able.sort(key=_least_disruptive_first)
    able.sort(key=lambda replica: not replica.failing(state.now))  # stable: a failing replica serves nobody
    return [Move(replica, to) for replica in able if pod_opt_out(replica.pod, state.now) is None][:excess]


def _by_ordinal(replica: Replica, to: CapacityClass, managed: Managed) -> tuple[bool, bool, int]:
    """Sort key for StatefulSets: first the pods whose ordinal has the other class, then the highest ordinal.

    Kubernetes deletes the highest ordinals. With every ordinal on its own class a scale-down needs no move afterwards.
    """
    pod = replica.pod
    return prefers_to_stay(pod), managed.class_of_ordinal(pod.name) is not to, -(managed.position_of(pod.name) or 0)


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
