"""The ledger of recent disruptions, and the last word on whether a pod may be evicted now.

The actuator asks it before every eviction. It combines the disruption limits (per workload and per cluster, within a rolling
period in which pods lost with their nodes count too) with the rules for PodDisruptionBudgets and for workloads without one, and
counts evictions that were sent and that the view does not show yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.disruption.last_ready import last_ready_blocker, one_at_a_time_blocker, wanted_replicas
from plimsoll.disruption.pdb import allowance, ignores_budgets
from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.kube.workloads import owner_of
from plimsoll.runtime.decision import Blocker, DisruptionLimits

# Longer than the API server works on a request (60 s), and longer than a watch may be silent before it is restarted.
UNDER_WAY_SECONDS = 180.0
HISTORY_NOT_READ = "HistoryNotRead"


class Disruption(Struct, frozen=True):
    """One pod that was evicted by us or lost with its node."""

    workload: Key
    pod: str  # namespace/name, for people
    uid: str
    at: float  # monotonic seconds: the wall clock may jump
    ours: bool = True


class DisruptionLedger:
    """Recent disruptions. Shared by all controllers: a workload feels the evictions of each of them."""

    def __init__(self, limits: DisruptionLimits, *, longest_period: timedelta | None = None) -> None:
        """longest_period: the period of the longest limit that an `Evict` action may carry."""
        self._limits = limits
        self._kept_seconds = max(limits.period, longest_period or limits.period).total_seconds()
        self._recent: deque[Disruption] = deque()
        self._asked: dict[str, Disruption] = {}  # by pod UID: evictions of ours that may not show in the view yet
        self._recalled = False

    def enter(self, disruption: Disruption) -> None:
        """Count a disruption. Called before the eviction is sent, because a lost reply may still have cost a pod."""
        self._recent.append(disruption)
        if disruption.ours:
            self._asked[disruption.uid] = disruption

    def happened(self, disruption: Disruption, now: float) -> None:
        """The eviction was answered, or may have been carried out: its period starts now, not when it was decided."""
        if disruption in self._recent:
            self._recent.remove(disruption)
            self.enter(replace(disruption, at=now))

    def withdraw(self, disruption: Disruption) -> None:
        """The eviction certainly did not happen."""
        if self._asked.pop(disruption.uid, None) is not None and disruption in self._recent:
            self._recent.remove(disruption)

    def recall(self, disruptions: Iterable[Disruption]) -> None:
        """Start a term of leadership with the disruptions that former leaders recorded."""
        self.learn(disruptions)
        self._recalled = True

    def learn(self, disruptions: Iterable[Disruption]) -> None:
        """Count disruptions by other processes, together with those seen here."""
        known = {disruption.uid for disruption in self._recent}
        news = [disruption for disruption in disruptions if disruption.uid not in known]
        self._recent = deque(sorted([*self._recent, *news], key=lambda disruption: disruption.at))
        self._asked |= {disruption.uid: disruption for disruption in news if disruption.ours}

    def close(self) -> None:
        """End a term: other leaders disrupt now, and their record must be read before this process evicts again."""
        self._recalled = False

    def recent(self, now: float) -> tuple[Disruption, ...]:
        self._forget(now)
        return tuple(self._recent)

    def refusal(
        self,
        pod: Pod,
        view: View,
        now: float,
        *,
        workload: Key,
        may_be_last: bool = False,
        within: DisruptionLimits | None = None,
    ) -> Blocker | None:
        """What forbids this eviction now, or None."""
        if not self._recalled:
            return Blocker(HISTORY_NOT_READ, "earlier disruptions have not been read from the ConfigMaps yet")
        self._forget(now)
        evicting = self._still_unseen(view)
        if ignores_budgets(pod):
            return None  # the API server evicts it whatever the budgets say, and no replica that serves is lost
        return (
            self._over(self._limits, workload, now)
            or (within and self._over(within, workload, now))
            or allowance(pod, view, evicting.values()).blocker
            or _replica_blocker(pod, view, evicting, may_be_last=may_be_last)
        )

    def record_node_loss(self, pods: tuple[Pod, ...], view: View, now: float) -> None:
        """Count the pods of a node that failed or was deleted: they were disrupted, though not by us."""
        known = {disruption.uid for disruption in self._recent}
        for pod in pods:
            # Ready or not: whether the pod's own change arrives before its node's is chance. DaemonSet pods belong to the
            # node, so their loss disrupts no workload.
            owner = owner_of(pod, view)
            if pod.uid not in known and not ignores_budgets(pod) and owner.key.kind != "DaemonSet":
                self.enter(Disruption(owner.key, f"{pod.namespace}/{pod.name}", pod.uid, now, ours=False))

    def losses(self, now: float) -> tuple[Disruption, ...]:
        """Recent disruptions by node loss, oldest first."""
        return tuple(disruption for disruption in self.recent(now) if not disruption.ours)

    def _forget(self, now: float) -> None:
        oldest = now - self._kept_seconds
        while self._recent and self._recent[0].at <= oldest:
            self._recent.popleft()
        # Recorded and never sent: once nothing can be in progress any more, it no longer blocks others.
        settled = now - min(UNDER_WAY_SECONDS, self._limits.period.total_seconds())
        for uid in [uid for uid, disruption in self._asked.items() if disruption.at <= settled]:
            del self._asked[uid]

    def _still_unseen(self, view: View) -> Mapping[str, Pod]:
        """Pods, by UID, whose eviction was sent and that the view still shows as running."""
        store = view[PODS]
        standing = {}
        for uid, disruption in list(self._asked.items()):
            namespace, _, name = disruption.pod.partition("/")
            pod = store.get(namespace, name)
            if pod is None or pod.metadata.uid != uid or pod.terminating:
                del self._asked[uid]
            else:
                standing[uid] = pod
        return standing

    def _over(self, limits: DisruptionLimits, workload: Key, now: float) -> Blocker | None:
        period_seconds = limits.period.total_seconds()
        recent = [disruption for disruption in self._recent if disruption.at > now - period_seconds]
        of_workload = [disruption for disruption in recent if disruption.workload == workload]
        for counted, limit, whose in (
            (of_workload, limits.per_workload, str(workload)),
            (recent, limits.per_cluster, "the cluster"),
        ):
            if len(counted) >= limit:
                freed_in = counted[0].at + period_seconds - now if counted else 0
                return Blocker(
                    "DisruptionLimit",
                    f"{len(counted)} pods of {whose} were disrupted within {limits.period}, the limit is {limit}; "
                    f"the oldest of them stops counting in {freed_in:.0f} s",
                )
        return None


def _replica_blocker(pod: Pod, view: View, evicting: Mapping[str, Pod], *, may_be_last: bool) -> Blocker | None:
    owner = owner_of(pod, view)
    if not may_be_last and (blocker := last_ready_blocker(pod, owner.key, owner.pods, evicting)) is not None:
        return blocker
    if budgets_of(pod, view):
        return None  # the user has said how many may be missing
    return one_at_a_time_blocker(pod, owner.key, wanted_replicas(owner), owner.pods, evicting)
