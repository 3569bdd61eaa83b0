"""Making room for a pod by sending less important ones away, in the way of kube-scheduler."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    conditions_with,
    labels_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import BUDGETS, PODS
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.controllers.context import Context
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.selectors import selects
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.snapshot import Snapshot

_SOURCE = "default-scheduler"
# Of so many nodes at most it is worked out what would have to go; kube-scheduler looks at no more of a small cluster's.
_MOST_CANDIDATES = 100


class _Plan(NamedTuple):
    """What it would cost to make room on a node; the least is chosen."""

    violations: int  # of budgets
    highest: int
    total: int
    number: int
    node: str
    victims: list[Json]

    @property
    def cost(self) -> tuple[int, int, int, int, str]:
        return self.violations, self.highest, self.total, self.number, self.node


def preempt(snapshot: Snapshot, context: Context, pod: Json) -> str:
    """Send away what stands in the way of a pod that fits nowhere; the node on which it then fits, or nothing."""
    if at(pod, "spec", "preemptionPolicy") == "Never" or _makes_room(context, pod):
        return ""
    waiting = convert(pod, Pod)
    plans: list[_Plan] = []
    for node in list(snapshot.rows):
        below = [one for one in context.storage.pods_on(node) if _priority(one) < _priority(pod)]
        if below and (plan := _plan(snapshot, context, waiting, node, below)) is not None:
            plans.append(plan)
        if len(plans) >= _MOST_CANDIDATES:
            break
    if not plans:
        return ""
    best = min(plans, key=lambda plan: plan.cost)
    for victim in best.victims:
        _send_away(context, victim, pod, best.node)
    return best.node


def _makes_room(context: Context, pod: Json) -> bool:
    """Whether pods that were sent away for it are still on their way out."""
    node = at(pod, "status", "nominatedNodeName", default="")
    leaving = [one for one in context.storage.pods_on(node) if terminating(one)] if node else []
    return any(_priority(one) < _priority(pod) for one in leaving)


def _plan(snapshot: Snapshot, context: Context, pod: Pod, node: str, below: list[Json]) -> _Plan | None:
    with snapshot.trial():
        for one in below:
            snapshot.remove(uid_of(one))
        if fits(snapshot, pod, node) is not None:
            return None
        victims: list[Json] = []
        # The most important are let back in first, as far as there is room for them beside the pod.
        for one in sorted(below, key=lambda other: (-_priority(other), name_of(other))):
            snapshot.add(convert(one, Pod), node)
            if fits(snapshot, pod, node) is not None:
                snapshot.remove(uid_of(one))
                victims.append(one)
    priorities = [_priority(one) for one in victims]
    violations = sum(_is_protected(context, one) for one in victims)
    return _Plan(violations, max(priorities, default=0), sum(priorities), len(victims), node, victims)


def _send_away(context: Context, victim: Json, pod: Json, node: str) -> None:
    if terminating(victim):
        return
    target = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": f"{_SOURCE}: preempting to accommodate a higher priority pod",
    }  # fmt: skip
    conditions = conditions_with(victim, target, context.stamp())
    marked = context.put_status(PODS, victim, {**(victim.get("status") or {}), "conditions": conditions})
    context.tell(PODS, marked, "Preempted", f"Preempted by pod {uid_of(pod)} on node {node}", source=_SOURCE)
    context.delete(PODS, marked)


def _is_protected(context: Context, pod: Json) -> bool:
    budgets = context.storage.collection(BUDGETS).all(namespace_of(pod))
    covering = [one for one in budgets if selects(selector_of(at(one, "spec", "selector")), labels_of(pod))]
    return any(at(one, "status", "disruptionsAllowed", default=0) <= 0 for one in covering)


def _priority(pod: Json) -> int:
    priority: int = at(pod, "spec", "priority", default=0)
    return priority
