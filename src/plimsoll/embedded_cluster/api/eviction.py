"""The eviction subresource: a deletion that a PodDisruptionBudget may refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    condition,
    condition_true,
    name_of,
    namespace_of,
    object_labels,
    set_condition,
    terminating,
)
from plimsoll.embedded_cluster.api.kinds import BUDGETS, PODS
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.status import StatusError, bad_request, forbidden_in
from plimsoll.embedded_cluster.api.writes import Writer
from plimsoll.kube.types.selectors import selects

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
# Maximum number of disrupted pods in a budget's status.
_MOST_DISRUPTED = 2000


def evict(writer: Writer, pod: Json, body: Mapping[str, Any], *, dry_run: bool) -> None:
    name = name_of(pod)
    if at(body, "metadata", "name", default=name) != name:
        raise bad_request(f"name in URL does not match name in Eviction object: {name}")
    options = body.get("deleteOptions") or {}
    dry_run = dry_run or bool(options.get("dryRun"))
    if not _needs_no_budget(pod):
        _spend(writer, pod, dry_run=dry_run)
    if not dry_run:
        pod = _marked(writer, pod, options)
    writer.delete(PODS, pod, options, dry_run=dry_run)


def _needs_no_budget(pod: Json) -> bool:
    """Whether a pod may be evicted without a budget: it is finished or has not started."""
    return at(pod, "status", "phase") in ("Succeeded", "Failed", "Pending") or terminating(pod)


def _spend(writer: Writer, pod: Json, *, dry_run: bool) -> None:
    budgets = [
        budget
        for budget in writer.storage.collection(BUDGETS).all(namespace_of(pod))
        if selects(selector_of(at(budget, "spec", "selector")), object_labels(pod))
    ]
    if len(budgets) > 1:
        raise StatusError(500, "", _TWO_BUDGETS)
    if not budgets:
        return
    (budget,) = budgets
    status = budget.get("status") or {}
    if not condition_true(pod, "Ready"):
        if at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
    name = name_of(budget)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    if status.get("disruptionsAllowed", 0) < 0:
        raise forbidden_in(BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        raise forbidden_in(
            BUDGETS, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if status.get("disruptionsAllowed", 0) == 0:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        raise _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    if dry_run:
        return
    disrupted = {**(status.get("disruptedPods") or {}), name_of(pod): writer.now()}
    left = status["disruptionsAllowed"] - 1
    spent = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
    if left == 0 and condition(budget, "DisruptionAllowed") is not None:
        shut = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}
        spent["conditions"] = set_condition(budget, shut, writer.now())
    writer.storage.put(BUDGETS, {**budget, "status": spent})


def _too_many(cause: str, *, retry_after: int | None = None) -> StatusError:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    return StatusError(429, "TooManyRequests", _VIOLATES, details=details, retry_after_seconds=retry_after)


def _marked(writer: Writer, pod: Json, options: Mapping[str, Any]) -> Json:
    """Add the DisruptionTarget condition, unless the preconditions fail."""
    uid = at(options, "preconditions", "uid")
    if uid not in (None, pod["metadata"]["uid"]) or at(options, "preconditions", "resourceVersion") is not None:
        return pod
    target = {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    }  # fmt: skip
    status = {**(pod.get("status") or {}), "conditions": set_condition(pod, target, writer.now())}
    return writer.storage.put(PODS, {**pod, "status": status})
