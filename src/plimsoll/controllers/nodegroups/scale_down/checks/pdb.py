"""A PodDisruptionBudget must allow the first eviction now; the others follow one by one as it allows them.

All pods that a budget covers count, also those that are about to leave other nodes.
"""

from __future__ import annotations

from plimsoll.controllers.nodegroups.group_state import must_move
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Situation
from plimsoll.controllers.nodegroups.types import ON_THEIR_WAY_OUT, VPSIE_NODES
from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.selectors import selects
from plimsoll.runtime.decision import Blocker


def budgets(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if pod.terminating:
            continue
        covering = budgets_of(pod, situation.seen.view)
        if len(covering) > 1:
            names = ", ".join(sorted(budget.name for budget in covering))
            message = (
                f"the budgets {names} all cover pod {pod.namespace}/{pod.name}: the API server refuses its eviction"
            )
            return Blocker("SeveralBudgets", message)
        for budget in covering:
            elsewhere = _leaving_elsewhere(budget, candidate, situation)
            status = budget.status
            if status.disruptions_allowed - elsewhere < 1:
                message = (
                    f"budget {budget.namespace}/{budget.name} allows {status.disruptions_allowed} disruptions, "
                    f"{elsewhere} of its pods are leaving other nodes: pod {pod.name} would have to wait"
                )
                return Blocker("NotEnoughPdb", message)
    return None


def _leaving_elsewhere(budget: PodDisruptionBudget, candidate: Candidate, situation: Situation) -> int:
    """Pods of the budget on other nodes that are being drained and that it does not count as disrupted yet."""
    seen = situation.seen
    return sum(
        1
        for member in seen.view[VPSIE_NODES].by(ON_THEIR_WAY_OUT, "")
        if member.node_name != candidate.name
        for pod in must_move(seen.pods_on(member.node_name))
        if pod.namespace == budget.namespace
        and not pod.terminating
        and pod.name not in budget.status.disrupted_pods
        and selects(budget.spec.selector, pod.labels)
    )
