"""What PodDisruptionBudgets would say to an eviction. The door asks again, and counts what the view does not show yet."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.kube.cache.pdb_index import budgets_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.runtime.decision import Blocker


class Allowance(Struct, frozen=True):
    """How many pods like this one may leave now; None where no budget speaks about it."""

    pods: int | None
    blocker: Blocker | None = None
    budget: str = ""


def allowance(pod: Pod, view: View) -> Allowance:
    found = budgets_of(pod, view)
    if not found:
        return Allowance(None)
    if len(found) > 1:
        names = ", ".join(sorted(budget.name for budget in found))
        message = (
            f"the budgets {names} all cover pod {pod.name}: the API server refuses every eviction; leave one of them"
        )
        return Allowance(0, Blocker("SeveralBudgets", message), names)
    (budget,) = found
    allowed = budget.status.disruptions_allowed
    if allowed > 0:
        return Allowance(allowed, budget=budget.name)
    status = budget.status
    message = f"budget {budget.name} allows no disruption now: {status.current_healthy} of its pods are healthy"
    return Allowance(0, Blocker("NotEnoughPdb", f"{message}, {status.desired_healthy} must stay so"), budget.name)
