"""Count a workload's replicas by capacity class, for the controller, for admission and for node removal.

A pod that has a node counts by that node's class, a pod without one by the class that admission assigned.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.placement.annotations import assigned_class
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import Managed, evaluate_workload, key_of, workload_of
from plimsoll.disruption.interrupted_nodes import leaving
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import NODES
from plimsoll.kube.workloads import active, pods_of
from plimsoll.runtime.decision import Blocker

FAILING_AFTER = timedelta(minutes=5)
FAILING_RESTARTS = 3


class Replica(Struct, frozen=True):
    """An active pod: neither terminating nor finished."""

    pod: Pod
    capacity_class: CapacityClass
    interrupted_by: str | None = None  # key of the taint that announces the removal of its node

    @property
    def bound(self) -> bool:
        return self.pod.spec.node_name != ""

    def failing(self, now: datetime) -> bool:
        """Whether a scheduled pod is unready for long, or restarts again and again: not a pod that is just starting."""
        pod = self.pod
        if pod.ready or not self.bound:
            return False
        if any(status.restart_count >= FAILING_RESTARTS for status in pod.status.container_statuses):
            return True
        unready = next((c.last_transition_time for c in pod.status.conditions if c.type == "Ready"), None)
        since = unready or pod.metadata.creation_timestamp
        return since is not None and now >= since + FAILING_AFTER

    @property
    def stays_ready(self) -> bool:
        return self.pod.ready and self.interrupted_by is None


class Counts(Struct, frozen=True):
    """Replicas by class. `spot` and `on_demand` include the replicas on nodes that are about to be removed."""

    spot: int = 0
    on_demand: int = 0
    interrupted_spot: int = 0  # on nodes that are about to be removed
    interrupted_on_demand: int = 0
    ready: int = 0  # and not interrupted
    ready_on_demand: int = 0  # and not interrupted

    @property
    def total(self) -> int:
        return self.spot + self.on_demand


def class_of(pod: Pod, view: View, rules: ClassRules) -> CapacityClass:
    """The class of a pod's node; without a node in view the class that admission assigned; else on-demand."""
    node = view[NODES].get("", pod.spec.node_name) if pod.spec.node_name else None
    if node is not None:
        return rules.of_labels(node.labels)
    return assigned_class(pod) or CapacityClass.ON_DEMAND


def replicas(pods: Iterable[Pod], view: View, rules: ClassRules) -> tuple[Replica, ...]:
    """The active pods among `pods`, each with its class."""
    found = []
    for pod in pods:
        if not active(pod):
            continue
        node = view[NODES].get("", pod.spec.node_name) if pod.spec.node_name else None
        if node is not None:
            found.append(Replica(pod, rules.of_labels(node.labels), leaving(node)))
        else:
            found.append(Replica(pod, assigned_class(pod) or CapacityClass.ON_DEMAND))
    return tuple(found)


def count(found: Iterable[Replica]) -> Counts:
    spot = on_demand = interrupted_spot = interrupted_on_demand = ready = ready_on_demand = 0
    for replica in found:
        is_spot = replica.capacity_class is CapacityClass.SPOT
        spot += is_spot
        on_demand += not is_spot
        if replica.interrupted_by is not None:
            interrupted_spot += is_spot
            interrupted_on_demand += not is_spot
        elif replica.pod.ready:
            ready += 1
            ready_on_demand += not is_spot
    return Counts(spot, on_demand, interrupted_spot, interrupted_on_demand, ready, ready_on_demand)


def count_of_workload(workload: Deployment | StatefulSet, view: View, rules: ClassRules) -> Counts:
    """Counts over the whole workload. Drift and the minimum use this."""
    return count(replicas(pods_of(workload, view), view, rules))


def minimum_on_demand(pods: Iterable[Pod], view: View, settings: PlacementSettings) -> Blocker | None:
    """The blocker if removing these pods of one node breaks a workload's minimum of ready on-demand replicas.

    Node removal calls this. It assumes that all pods are missing at once, because disruption budgets may allow that.
    """
    lost: dict[str, int] = {}
    for pod in pods:
        workload = workload_of(pod, view)
        if workload is None or not pod.ready or class_of(pod, view, settings.rules) is not CapacityClass.ON_DEMAND:
            continue
        verdict = evaluate_workload(workload, settings)
        if not isinstance(verdict, Managed):
            continue
        lost[workload.uid] = lost.get(workload.uid, 0) + 1
        minimum = verdict.policy.share.min_on_demand
        ready = count_of_workload(workload, view, settings.rules).ready_on_demand
        if minimum > 0 and ready - lost[workload.uid] < minimum:
            message = (
                f"{key_of(workload)} has {ready} on-demand replicas ready, {lost[workload.uid]} of them on the node"
            )
            return Blocker("MinimumOnDemand", f"{message}; the minimum is {minimum}")
    return None
