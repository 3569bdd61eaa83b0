"""Everything that a decision about one workload is made from, gathered once."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from plimsoll.controllers.placement.pdb_check import Allowance, allowance
from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.replica_counts import Counts, Replica, count, pods_of, replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.workload import Managed
from plimsoll.disruption.entries import Disruptions
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod, StatefulSet
from plimsoll.kube.types.resources import DEPLOYMENTS, STATEFULSETS, Key
from plimsoll.runtime.decision import Ref


class Seen:
    def __init__(
        self,
        managed: Managed,
        view: View,
        now: datetime,
        settings: PlacementSettings,
        disruptions: Disruptions | None = None,
    ) -> None:
        """disruptions: as they were read for an earlier decision; only what has changed since is read again."""
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
    def ordinal(self) -> bool:
        """Whether each pod has its class by its place, and not the workload as many as it should have."""
        return isinstance(self.workload, StatefulSet)

    @property
    def ref(self) -> Ref:
        return Ref.to(STATEFULSETS if self.ordinal else DEPLOYMENTS, self.workload)

    def allowance(self, pod: Pod) -> Allowance:
        """What budgets say to the eviction of this pod; asked of the view once."""
        if pod.uid not in self._allowances:
            self._allowances[pod.uid] = allowance(pod, self.view)
        return self._allowances[pod.uid]

    @cached_property
    def state(self) -> ReplicaState:
        """Pods on nodes that are about to go count as gone."""
        counts = self.counts
        return ReplicaState(
            counts.spot - counts.leaving_spot, counts.on_demand - counts.leaving_on_demand, self.managed.target
        )

    @property
    def missing(self) -> int:
        """Replicas that are wanted and not available: not there, not ready, not ready for long enough, or about to go."""
        available = min(self.counts.ready, self.workload.status.available_replicas)
        return max(0, self.workload.spec.replicas - available)
