"""The disruption controller: the status of PodDisruptionBudgets."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    controller_of,
    name_of,
    namespace_of,
    object_labels,
    set_condition,
    terminating,
)
from plimsoll.embedded_cluster.api.kinds import BUDGETS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.pods import int_or_percent, pod_is_active, pod_is_finished, pod_is_ready
from plimsoll.kube.types.selectors import selects

# An allowed eviction that was not followed by a deletion expires after this time.
_DISRUPTION_SECONDS = 120.0
_SCALABLE = {kind.kind: kind for kind in (REPLICASETS, STATEFULSETS, DEPLOYMENTS)}


class BudgetController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(BUDGETS, lambda change: context.queue.add(self.reconcile, object_key(change.object)))
        context.on_change(PODS, self._pod_changed)
        for kind in _SCALABLE.values():
            context.on_change(kind, self._workload_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        for budget in self._context.storage.collection(BUDGETS).all(namespace_of(change.object)):
            if selects(selector_of(at(budget, "spec", "selector")), object_labels(change.object)):
                self._context.queue.add(self.reconcile, object_key(budget))

    def _workload_changed(self, change: ObjectChange) -> None:
        before = at(change.before or {}, "spec", "replicas")
        if before != at(change.object, "spec", "replicas"):
            for budget in self._context.storage.collection(BUDGETS).all(namespace_of(change.object)):
                self._context.queue.add(self.reconcile, object_key(budget))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        budget = context.storage.get(BUDGETS, *key)
        if budget is None:
            return
        selector = selector_of(at(budget, "spec", "selector"))
        pods = [
            pod
            for pod in context.storage.collection(PODS).all(namespace_of(budget))
            if selects(selector, object_labels(pod)) and not pod_is_finished(pod)
        ]
        expected, desired = self._needed(budget, pods)
        disrupted = self._still_disrupted(budget, pods)
        healthy = sum(1 for pod in pods if pod_is_active(pod) and pod_is_ready(pod) and name_of(pod) not in disrupted)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Json = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
            context.requeue_after(self.reconcile, key, _DISRUPTION_SECONDS)
        state = {
            "type": "DisruptionAllowed", "status": str(allowed > 0), "observedGeneration": budget["metadata"]["generation"],
            "reason": "SufficientPods" if allowed > 0 else "InsufficientPods", "message": "",
        }  # fmt: skip
        status["conditions"] = set_condition(budget, state, context.timestamp())
        context.put_status(BUDGETS, budget, status)

    def _needed(self, budget: Json, pods: list[Json]) -> tuple[int, int]:
        """Expected pods, and how many of them must be healthy."""
        spec = budget.get("spec") or {}
        if spec.get("maxUnavailable") is not None:
            expected = self._expected(pods)
            return expected, max(0, expected - int_or_percent(spec["maxUnavailable"], expected, up=True))
        least = spec.get("minAvailable")
        if isinstance(least, str):
            expected = self._expected(pods)
            return expected, int_or_percent(least, expected, up=True)
        return len(pods), 1 if least is None else least

    def _expected(self, pods: list[Json]) -> int:
        """The total size of the workloads that own the pods; pods without a workload count as 0."""
        sizes: dict[str, int] = {}
        for pod in pods:
            found = self._workload_of(pod)
            if found is not None:
                sizes[found["metadata"]["uid"]] = at(found, "spec", "replicas", default=1)
        return sum(sizes.values())

    def _workload_of(self, obj: Json) -> Json | None:
        found: Json | None = None
        owner = controller_of(obj)
        while owner is not None and owner["kind"] in _SCALABLE:
            above = self._context.storage.get(_SCALABLE[owner["kind"]], namespace_of(obj), owner["name"])
            if above is None or above["metadata"]["uid"] != owner["uid"]:
                break
            found, owner = above, controller_of(above)
        return found

    def _still_disrupted(self, budget: Json, pods: list[Json]) -> dict[str, str]:
        there = {name_of(pod) for pod in pods if not terminating(pod)}
        now = self._context.now()
        return {
            name: moment
            for name, moment in at(budget, "status", "disruptedPods", default={}).items()
            if name in there and parse_timestamp(moment) + timedelta(seconds=_DISRUPTION_SECONDS) > now
        }
