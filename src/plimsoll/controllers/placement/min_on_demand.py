"""Would a workload keep its minimum of on-demand replicas if a node were emptied? Asked by whoever removes nodes."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.controllers.placement.replica_counts import class_of, count_of_workload
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import Managed, judge, key_of, workload_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.runtime.decision import Blocker


def minimum_on_demand(leaving: Iterable[Pod], view: View, settings: PlacementSettings) -> Blocker | None:
    """`leaving`: the pods of the node. Counted as if all of them were missing at once: budgets may allow that."""
    lost: dict[str, int] = {}
    for pod in leaving:
        workload = workload_of(pod, view)
        if workload is None or not pod.ready or class_of(pod, view, settings.rules) is not CapacityClass.ON_DEMAND:
            continue
        verdict = judge(workload, settings)
        if not isinstance(verdict, Managed):
            continue
        lost[workload.uid] = lost.get(workload.uid, 0) + 1
        minimum = verdict.policy.share.min_on_demand
        ready = count_of_workload(workload, view, settings.rules).ready_on_demand
        if minimum > 0 and ready - lost[workload.uid] < minimum:
            message = (
                f"{key_of(workload)} has {ready} on-demand replicas ready, {lost[workload.uid]} of them on the node"
            )
            return Blocker("MinimumOnDemand", f"{message}, and {minimum} must stay")
    return None
