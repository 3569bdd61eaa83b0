"""May this pod be asked to leave now? The ledger of disruptions, ours and those that happened to us.

Two questions come before every eviction. Would the API server allow it (PodDisruptionBudgets, counted as it counts them,
less what we have asked for and the view does not show yet)? And would we: where nobody wrote a budget, one pod of an owner
at a time; never the last ready one unless the user allows it; no more than the limits for a workload and for the cluster
within a rolling period, in which nodes that were lost by themselves count too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS, Key
from plimsoll.kube.types.selectors import selects
from plimsoll.kube.workloads import Owner, owner_of
from plimsoll.runtime.decision import Blocker, DisruptionLimits

# The API server refuses while a budget's controller has so many evictions still to see through.
DISRUPTED_PODS_LIMIT = 2000
# Longer than the API server works on a request (60 s), and than a watch may be silent before it is taken for dead.
UNDER_WAY_SECONDS = 180.0
MEMORY_NOT_READ = "MemoryNotRead"


class Disruption(Struct, frozen=True):
    """One pod that had to go: asked by us, or lost with its node."""

    workload: Key
    pod: str  # namespace/name, for people
    uid: str
    at: float  # monotonic seconds: the wall clock may jump
    ours: bool = True


class DisruptionLedger:
    """What was disrupted lately. One for all controllers, because one workload suffers from all of them alike."""

    def __init__(self, limits: DisruptionLimits, *, longest_period: timedelta | None = None) -> None:
        """`longest_period` is that of the longest-lasting limit which an eviction may bring along."""
        self._limits = limits
        self._kept_seconds = max(limits.period, longest_period or limits.period).total_seconds()
        self._recent: deque[Disruption] = deque()
        self._asked: dict[str, Disruption] = {}  # by pod UID: evictions of ours that may not show in the view yet
        self._recalled = False

    def enter(self, disruption: Disruption) -> None:
        """Count a disruption. Entered before the eviction is sent: an answer that is lost has still cost a pod."""
        self._recent.append(disruption)
        if disruption.ours:
            self._asked[disruption.uid] = disruption

    def happened(self, disruption: Disruption, now: float) -> None:
        """An eviction was answered, or may have been carried out: its period begins now, not when it was decided."""
        if disruption in self._recent:
            self._recent.remove(disruption)
            self.enter(replace(disruption, at=now))

    def withdraw(self, disruption: Disruption) -> None:
        """The eviction certainly did not happen."""
        if self._asked.pop(disruption.uid, None) is not None and disruption in self._recent:
            self._recent.remove(disruption)

    def recall(self, disruptions: Iterable[Disruption]) -> None:
        """A tenure begins: count what was written down by whoever led before."""
        self.learn(disruptions)
        self._recalled = True

    def learn(self, disruptions: Iterable[Disruption]) -> None:
        """Count what others have done, together with what was seen here."""
        known = {disruption.uid for disruption in self._recent}
        news = [disruption for disruption in disruptions if disruption.uid not in known]
        self._recent = deque(sorted([*self._recent, *news], key=lambda disruption: disruption.at))
        self._asked |= {disruption.uid: disruption for disruption in news if disruption.ours}

    def close(self) -> None:
        """A tenure ends: others disrupt now, and what they wrote down must be read before we do again."""
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
            return Blocker(MEMORY_NOT_READ, "earlier disruptions are not read from memory yet")
        self._forget(now)
        asked = self._still_unseen(view)
        if never_ran(pod):
            return None  # the API server lets it go whatever the budgets say, and nobody loses anything
        return (
            self._over(self._limits, workload, now)
            or (within and self._over(within, workload, now))
            or _budget_refusal(pod, view, asked)
            or _owner_refusal(pod, view, asked, may_be_last=may_be_last)
        )

    def node_lost(self, pods: tuple[Pod, ...], view: View, now: float) -> None:
        """The node of these pods went by itself: they were disrupted, though not by us."""
        known = {disruption.uid for disruption in self._recent}
        for pod in pods:
            # Ready or not: whether a pod's own change is heard before its node's is chance. A daemon's pod has no other
            # place to be, so its loss is the node's alone.
            owner = owner_of(pod, view)
            if pod.uid not in known and not never_ran(pod) and owner.key.kind != "DaemonSet":
                self.enter(Disruption(owner.key, f"{pod.namespace}/{pod.name}", pod.uid, now, ours=False))

    def losses(self, now: float) -> tuple[Disruption, ...]:
        """What went with its node lately, oldest first."""
        return tuple(disruption for disruption in self.recent(now) if not disruption.ours)

    def _forget(self, now: float) -> None:
        oldest = now - self._kept_seconds
        while self._recent and self._recent[0].at <= oldest:
            self._recent.popleft()
        # Written down and never sent: once nothing can be under way any more, it no longer holds others back.
        settled = now - min(UNDER_WAY_SECONDS, self._limits.period.total_seconds())
        for uid in [uid for uid, disruption in self._asked.items() if disruption.at <= settled]:
            del self._asked[uid]

    def _still_unseen(self, view: View) -> Mapping[str, Pod]:
        """Pods, by UID, that we asked to leave and that the view still shows as if nothing had happened."""
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


def never_ran(pod: Pod) -> bool:
    """Pending, finished or already leaving: the API server evicts such a pod without asking any budget."""
    return pod.terminating or pod.status.phase in ("Pending", "Succeeded", "Failed")


def _budget_refusal(pod: Pod, view: View, asked: Mapping[str, Pod]) -> Blocker | None:
    budgets = budgets_of(pod, view)
    if not budgets:
        return None
    if len(budgets) > 1:
        names = ", ".join(sorted(budget.name for budget in budgets))
        return Blocker(
            "SeveralBudgets",
            f"the budgets {names} all cover pod {pod.namespace}/{pod.name}: the API server refuses every eviction of it; "
            "leave one of them",
        )
    (budget,) = budgets
    status, where = budget.status, f"budget {budget.namespace}/{budget.name}"
    if not pod.ready:
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return None
        if status.current_healthy >= status.desired_healthy > 0:
            return None
    if status.observed_generation < budget.metadata.generation:
        return Blocker("BudgetNotCounted", f"{where} was changed and its controller has not counted it yet")
    if len(status.disrupted_pods) > DISRUPTED_PODS_LIMIT:
        return Blocker("BudgetBusy", f"{where} has more than {DISRUPTED_PODS_LIMIT} evictions under way")
    unseen = sum(
        1
        for other in asked.values()
        if other.uid != pod.uid
        and other.namespace == budget.namespace
        and other.name not in status.disrupted_pods
        and selects(budget.spec.selector, other.labels)
    )
    if status.disruptions_allowed - unseen <= 0:
        return Blocker(
            "NotEnoughPdb",
            f"{where} allows {max(0, status.disruptions_allowed - unseen)} disruptions now: "
            f"{status.current_healthy} of its pods are healthy, {status.desired_healthy} must stay so",
        )
    return None


def _owner_refusal(pod: Pod, view: View, asked: Mapping[str, Pod], *, may_be_last: bool) -> Blocker | None:
    owner = owner_of(pod, view)
    others_ready = sum(
        1 for other in owner.pods
        if other.uid != pod.uid and other.ready and not other.terminating and not other.finished and other.uid not in asked
    )  # fmt: skip
    if pod.ready and others_ready == 0 and not may_be_last:
        return Blocker("LastReady", f"pod {pod.namespace}/{pod.name} is the only ready pod of {owner.key}")
    if budgets_of(pod, view):
        return None  # the user has said how many may be missing
    wanted = _wanted(owner)
    if others_ready < wanted - 1:
        return Blocker(
            "OwnerDisrupted",
            f"{owner.key} has {others_ready + pod.ready} of {wanted} pods ready and no PodDisruptionBudget: "
            "one pod at a time, and another is missing already",
        )
    return None


def _wanted(owner: Owner) -> int:
    if owner.replicas is not None:
        return owner.replicas
    return sum(1 for pod in owner.pods if not pod.finished)
