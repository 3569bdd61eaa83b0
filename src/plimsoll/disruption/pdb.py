"""PodDisruptionBudgets: would the API server allow the eviction of this pod now?

The one implementation, with the API server's own rules in the API server's order. The actuator asks right before it sends an
eviction; placement, node groups and `explain` ask when they decide. All of them get the same answer from the same view.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.selectors import selects
from plimsoll.runtime.decision import Blocker

# The API server refuses evictions under a budget that has more than this many evictions in progress.
DISRUPTED_PODS_LIMIT = 2000


class Allowance(Struct, frozen=True):
    """What the budgets say about evicting one pod."""

    budget: str = ""  # the budget that covers the pod; empty: none does
    disruptions: int | None = None  # evictions that the budget allows now; None: it does not count this pod
    blocker: Blocker | None = None


def ignores_budgets(pod: Pod) -> bool:
    """Pending, finished or terminating: the API server evicts such a pod whatever the budgets say."""
    return pod.terminating or pod.finished or pod.status.phase == "Pending"


def allowance(pod: Pod, view: View, evicting: Iterable[Pod] = ()) -> Allowance:
    """How many evictions of pods like this one are allowed now, and what forbids the first.

    evicting: other pods that are to be evicted and that the status of their budget does not show yet. Each uses up one
    disruption of the budget that covers it.
    """
    if ignores_budgets(pod):
        return Allowance()
    covering = budgets_of(pod, view)
    if not covering:
        return Allowance()
    if len(covering) > 1:
        names = ", ".join(sorted(budget.name for budget in covering))
        message = (
            f"PodDisruptionBudgets {names} all match pod {pod.namespace}/{pod.name}: the API server refuses every eviction; "
            "delete all but one of them"
        )
        return Allowance(names, 0, Blocker("SeveralBudgets", message))
    (budget,) = covering
    status, title = budget.status, f"PodDisruptionBudget {budget.namespace}/{budget.name}"
    if not pod.ready and _unready_may_go(budget):
        return Allowance(budget.name)
    if status.observed_generation < budget.metadata.generation:
        message = f"{title} was changed and the disruption controller has not updated its status yet"
        return Allowance(budget.name, 0, Blocker("BudgetNotCounted", message))
    if len(status.disrupted_pods) > DISRUPTED_PODS_LIMIT:
        message = f"{title} has more than {DISRUPTED_PODS_LIMIT} evictions in progress"
        return Allowance(budget.name, 0, Blocker("BudgetBusy", message))
    uncounted = sum(1 for other in evicting if other.uid != pod.uid and _uses_up(budget, other))
    allowed = max(0, status.disruptions_allowed - uncounted)
    if allowed > 0:
        return Allowance(budget.name, allowed)
    message = f"{title} allows no disruption now: {status.current_healthy} of its pods are healthy, {status.desired_healthy} must be"
    if uncounted:
        message += f", and {uncounted} of them are being evicted"
    return Allowance(budget.name, 0, Blocker("NotEnoughPdb", message))


def _unready_may_go(budget: PodDisruptionBudget) -> bool:
    """Whether a pod that is not ready may be evicted without using up a disruption (`unhealthyPodEvictionPolicy`)."""
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _uses_up(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return (
        pod.namespace == budget.namespace
        and pod.name not in budget.status.disrupted_pods
        and selects(budget.spec.selector, pod.labels)
        and not ignores_budgets(pod)
        and (pod.ready or not _unready_may_go(budget))
    )
