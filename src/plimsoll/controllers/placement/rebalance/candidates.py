"""Which replicas should move, those first whose move disturbs least."""

from __future__ import annotations

from datetime import UTC, datetime

from plimsoll.controllers.placement.rebalance.guards import Move, minimum_stays
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import parse_duration

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def moves(seen: Seen) -> list[Move]:
    """Every move that would bring the workload nearer to what it should be, the next one first."""
    if seen.ordinal:
        return _misplaced(seen)
    action = seen.state.next_action()
    if action is NextAction.MIGRATE_TO_SPOT:
        surplus, to, excess = CapacityClass.ON_DEMAND, CapacityClass.SPOT, seen.state.on_demand_drift
    elif action is NextAction.MIGRATE_TO_ON_DEMAND:
        surplus, to, excess = CapacityClass.SPOT, CapacityClass.ON_DEMAND, seen.state.spot_drift
    else:
        return []
    able = [r for r in seen.replicas if r.capacity_class is surplus and r.bound and r.leaving is None]
    able.sort(key=_least_disturbing_first)
    return [Move(replica, to) for replica in able if not opted_out(replica.pod, seen.now)][:excess]


def _misplaced(seen: Seen) -> list[Move]:
    """A StatefulSet's pods on the wrong class, the highest ordinal first.

    Where the minimum forbids to take an on-demand pod away, those that would become on-demand come first: else two pods that
    should change places would wait for each other for ever.
    """
    found = []
    for replica in seen.replicas:
        wanted = seen.managed.class_of_ordinal(replica.pod.name)
        if wanted is None or replica.capacity_class is wanted or not replica.bound or replica.leaving is not None:
            continue
        if not opted_out(replica.pod, seen.now):
            found.append(Move(replica, wanted))
    found.sort(key=lambda move: int(move.replica.pod.name.rpartition("-")[2]), reverse=True)
    return sorted(found, key=lambda move: minimum_stays(seen, move) is not None)


def opted_out(pod: Pod, now: datetime) -> bool:
    """Whether the pod says itself, in one of the ways that people already know, that it must not be moved."""
    annotations = pod.annotations
    if annotations.get(SAFE_TO_EVICT) in ("false", "on-completion"):
        return True
    wish = annotations.get(DO_NOT_DISRUPT)
    if wish is None or wish == "false":
        return False
    try:
        span = parse_duration(wish)
    except ValueError:
        return True  # "true", or something that nobody can read: taken for a no
    created = pod.metadata.creation_timestamp
    return created is None or now < created + span


def _least_disturbing_first(replica: Replica) -> tuple[bool, int, float, str]:
    """Those that would rather stay last; then by deletion cost; then the one that has been ready for the shortest time."""
    pod = replica.pod
    since = pod.ready_since or pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return PREFER_NO_EVICTION in pod.annotations, _cost(pod), -since.timestamp(), pod.name


def _cost(pod: Pod) -> int:
    try:
        return int(pod.annotations.get(DELETION_COST, "0")[:12])
    except ValueError:
        return 0  # as Kubernetes reads it
