"""Preemption: deletes pods of lower priority to make room for a pod, as kube-scheduler does."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    name_of,
    namespace_of,
    object_labels,
    set_condition,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import BUDGETS, PODS
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.controllers.context import ControllerContext
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.selectors import selects
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.snapshot import Snapshot

_SOURCE = "default-scheduler"
# Maximum number of candidate nodes, as in kube-scheduler for a small cluster.
_MOST_CANDIDATES = 100


class _Plan(NamedTuple):
    """The cost of making room on a node; the lowest cost wins."""

    violations: int  # of budgets
    highest: int
    total: int
    number: int
    node: str
    victims: list[Json]

    @property
    def cost(self) -> tuple[int, int, int, int, str]:
        return self.violations, self.highest, self.total, self.number, self.node


def preempt(snapshot: Snapshot, context: ControllerContext, pod: Json) -> str:
    """Delete lower-priority pods so that a pod fits; returns the node, empty if preemption does not help."""
    if at(pod, "spec", "preemptionPolicy") == "Never" or _awaits_victims(context, pod):
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
        _evict_victim(context, victim, pod, best.node)
    return best.node


def _awaits_victims(context: ControllerContext, pod: Json) -> bool:
    """Whether its earlier victims are still terminating."""
    node = at(pod, "status", "nominatedNodeName", default="")
    leaving = [one for one in context.storage.pods_on(node) if terminating(one)] if node else []
    return any(_priority(one) < _priority(pod) for one in leaving)


def _plan(snapshot: Snapshot, context: ControllerContext, pod: Pod, node: str, below: list[Json]) -> _Plan | None:
    with snapshot.trial():
        for one in below:
            snapshot.remove(uid_of(one))
        if fits(snapshot, pod, node) is not None:
            return None
        victims: list[Json] = []
        # Reprieve victims in order of priority while the pod still fits.
        for one in sorted(below, key=lambda other: (-_priority(other), name_of(other))):
            snapshot.add(convert(one, Pod), node)
            if fits(snapshot, pod, node) is not None:
                snapshot.remove(uid_of(one))
                victims.append(one)
    priorities = [_priority(one) for one in victims]
    violations = sum(_is_protected(context, one) for one in victims)
    return _Plan(violations, max(priorities, default=0), sum(priorities), len(victims), node, victims)


def _evict_victim(context: ControllerContext, victim: Json, pod: Json, node: str) -> None:
    if terminating(victim):
        return
    target = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": f"{_SOURCE}: preempting to accommodate a higher priority pod",
    }  # fmt: skip
    conditions = set_condition(victim, target, context.timestamp())
    marked = context.put_status(PODS, victim, {**(victim.get("status") or {}), "conditions": conditions})
    context.record_event(PODS, marked, "Preempted", f"Preempted by pod {uid_of(pod)} on node {node}", source=_SOURCE)
    context.delete(PODS, marked)


def _is_protected(context: ControllerContext, pod: Json) -> bool:
    budgets = context.storage.collection(BUDGETS).all(namespace_of(pod))
    covering = [one for one in budgets if selects(selector_of(at(one, "spec", "selector")), object_labels(pod))]
    return any(at(one, "status", "disruptionsAllowed", default=0) <= 0 for one in covering)


def _priority(pod: Json) -> int:
    priority: int = at(pod, "spec", "priority", default=0)
    return priority
