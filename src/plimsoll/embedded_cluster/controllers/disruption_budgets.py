"""PodDisruptionBudgets: how many of the pods they cover could be missed now."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    conditions_with,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    terminating,
)
from plimsoll.embedded_cluster.api.kinds import BUDGETS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.api.timestamps import parsed
from plimsoll.embedded_cluster.controllers.context import Context, Key, key_of
from plimsoll.embedded_cluster.controllers.pods import active, finished, ready, share
from plimsoll.kube.types.selectors import selects

# An eviction that was allowed and has led to nothing in this time is forgotten.
_DISRUPTION_SECONDS = 120.0
_SCALABLE = {kind.kind: kind for kind in (REPLICASETS, STATEFULSETS, DEPLOYMENTS)}


class BudgetController:
    def __init__(self, context: Context) -> None:
        self._context = context
        context.on_change(BUDGETS, lambda change: context.work.add(self.reconcile, key_of(change.object)))
        context.on_change(PODS, self._pod_changed)
        for kind in _SCALABLE.values():
            context.on_change(kind, self._workload_changed)

    def _pod_changed(self, change: Change) -> None:
        for budget in self._context.storage.collection(BUDGETS).all(namespace_of(change.object)):
            if selects(selector_of(at(budget, "spec", "selector")), labels_of(change.object)):
                self._context.work.add(self.reconcile, key_of(budget))

    def _workload_changed(self, change: Change) -> None:
        before = at(change.before or {}, "spec", "replicas")
        if before != at(change.object, "spec", "replicas"):
            for budget in self._context.storage.collection(BUDGETS).all(namespace_of(change.object)):
                self._context.work.add(self.reconcile, key_of(budget))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        budget = context.storage.get(BUDGETS, *key)
        if budget is None:
            return
        selector = selector_of(at(budget, "spec", "selector"))
        pods = [
            pod
            for pod in context.storage.collection(PODS).all(namespace_of(budget))
            if selects(selector, labels_of(pod)) and not finished(pod)
        ]
        expected, desired = self._needed(budget, pods)
        disrupted = self._still_disrupted(budget, pods)
        healthy = sum(1 for pod in pods if active(pod) and ready(pod) and name_of(pod) not in disrupted)
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
            context.again(self.reconcile, key, _DISRUPTION_SECONDS)
        state = {
            "type": "DisruptionAllowed", "status": str(allowed > 0), "observedGeneration": budget["metadata"]["generation"],
            "reason": "SufficientPods" if allowed > 0 else "InsufficientPods", "message": "",
        }  # fmt: skip
        status["conditions"] = conditions_with(budget, state, context.stamp())
        context.put_status(BUDGETS, budget, status)

    def _needed(self, budget: Json, pods: list[Json]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        spec = budget.get("spec") or {}
        if spec.get("maxUnavailable") is not None:
            expected = self._expected(pods)
            return expected, max(0, expected - share(spec["maxUnavailable"], expected, up=True))
        least = spec.get("minAvailable")
        if isinstance(least, str):
            expected = self._expected(pods)
            return expected, share(least, expected, up=True)
        return len(pods), 1 if least is None else least

    def _expected(self, pods: list[Json]) -> int:
        """The sizes of all workloads that have a pod here; pods without a workload count for nothing."""
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
            if name in there and parsed(moment) + timedelta(seconds=_DISRUPTION_SECONDS) > now
        }
