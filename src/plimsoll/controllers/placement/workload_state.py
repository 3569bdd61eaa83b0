"""The state of one workload as a decision sees it: policy, replicas, counts, disruptions and disruption budgets.

The controller builds one per decision and passes it to every check."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.replica_counts import Counts, Replica, count, replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.workload import Managed
from plimsoll.disruption.entries import Disruptions
from plimsoll.disruption.pdb import Allowance, allowance
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import StatefulSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import DEPLOYMENTS, STATEFULSETS, Key
from plimsoll.kube.workloads import pods_of
from plimsoll.runtime.decision import Ref


class WorkloadState:
    def __init__(
        self,
        managed: Managed,
        view: View,
        now: datetime,
        settings: PlacementSettings,
        disruptions: Disruptions | None = None,
    ) -> None:
        """disruptions: the reader that the controller keeps; it rereads only the ConfigMaps that changed."""
        self.managed = managed
        self.workload = managed.workload
        self.view = view
        self.now = now
        self.settings = settings
        self.disruptions = disruptions or Disruptions(settings.memory)
        self.disruptions.follow(view)
        self._allowances: dict[str, Allowance] = {}
        self.replicas: tuple[Replica, ...] = replicas(pods_of(managed.workload, view), view, settings.rules)
        self.counts: Counts = count(self.replicas)

    @property
    def key(self) -> Key:
        return self.managed.key

    @property
    def is_stateful_set(self) -> bool:
        """Whether pods have ordinals: an eviction recreates the pod under the same name."""
        return isinstance(self.workload, StatefulSet)

    @property
    def ref(self) -> Ref:
        return Ref.to(STATEFULSETS if self.is_stateful_set else DEPLOYMENTS, self.workload)

    def allowance(self, pod: Pod) -> Allowance:
        """How many evictions the disruption budgets of this pod allow; cached for this decision."""
        if pod.uid not in self._allowances:
            self._allowances[pod.uid] = allowance(pod, self.view)
        return self._allowances[pod.uid]

    @cached_property
    def replica_state(self) -> ReplicaState:
        """Current and desired counts. Pods on nodes that are about to be removed count as gone."""
        counts = self.counts
        return ReplicaState(
            counts.spot - counts.interrupted_spot, counts.on_demand - counts.interrupted_on_demand, self.managed.target
        )

    @property
    def unavailable(self) -> int:
        """Desired replicas that are not available: missing, not ready, not ready for minReadySeconds, or interrupted."""
        available = min(self.counts.ready, self.workload.status.available_replicas)
        return max(0, self.workload.spec.replicas - available)
