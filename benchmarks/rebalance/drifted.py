"""A cluster in which every workload is on the wrong class."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types import apps, core, policy
from plimsoll.kube.types.resources import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Resource,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
_ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def view(workloads: int, replicas: int, settings: PlacementSettings) -> View:
    """Workloads that want 70 % on spot and have nobody there, each with a budget, on as many nodes as they need."""
    pods_in_all = workloads * replicas
    nodes = list(_nodes("od", pods_in_all // 80 + 1, {})) + list(
        _nodes("spot", pods_in_all // 80 + 1, {"karpenter.sh/capacity-type": "spot"})
    )
    found: dict[Resource[Any], list[Any]] = {
        kind: [] for kind in (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES)
    }
    found[settings.memory] = []
    found[NODES] = nodes
    on_demand = [node.name for node in nodes if node.name.startswith("od")]
    number = 0
    for index in range(workloads):
        name = f"web-{index}"
        deployment = _workload(name, replicas)
        replica_set = _replica_set(deployment)
        found[DEPLOYMENTS].append(convert(deployment, apps.Deployment))
        found[REPLICASETS].append(convert(replica_set, apps.ReplicaSet))
        found[BUDGETS].append(_budget(name, replicas))
        for _ in range(replicas):
            found[PODS].append(_pod(f"{name}-{number}", replica_set, on_demand[number // 80]))
            number += 1
    made = View.of(found)
    for store in made.stores():
        store.resource_version = "1"  # as a reflector has it: the view says of itself that it has not changed
    return made


def _nodes(prefix: str, count: int, labels: dict[str, str]) -> Iterator[core.Node]:
    for number in range(count):
        body = {
            "metadata": {"name": f"{prefix}-{number}", "uid": f"{prefix}-{number}", "labels": labels},
            "status": {"allocatable": _ROOM, "capacity": _ROOM, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        yield convert(body, core.Node)


def _workload(name: str, replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]},
    }
    status = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), replicas)
    return {
        "metadata": {
            "name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1,
            "annotations": {ENABLED: "true", SPOT_PERCENTAGE: "70%", MIN_ON_DEMAND: "1"},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        "status": {"observedGeneration": 1, **status},
    }  # fmt: skip


def _owned_by(kind: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    meta = owner["metadata"]
    return [{"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}]


def _replica_set(deployment: dict[str, Any]) -> dict[str, Any]:
    name = deployment["metadata"]["name"] + "-1"
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "ownerReferences": _owned_by("Deployment", deployment),
    }
    return {"metadata": meta, "spec": deployment["spec"], "status": deployment["status"]}


def _pod(name: str, replica_set: dict[str, Any], node: str) -> core.Pod:
    template = replica_set["spec"]["template"]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {
        "metadata": {
            "name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1",
            "creationTimestamp": (START - timedelta(hours=1)).isoformat(), "labels": template["metadata"]["labels"],
            "ownerReferences": _owned_by("ReplicaSet", replica_set),
        },
        "spec": {**template["spec"], "nodeName": node},
        "status": {"phase": "Running", "conditions": [ready]},
    }  # fmt: skip
    return convert(body, core.Pod)


def _budget(name: str, replicas: int) -> policy.PodDisruptionBudget:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"budget-{name}"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": 1},
        "status": {
            "disruptionsAllowed": 1,
            "currentHealthy": replicas,
            "desiredHealthy": replicas - 1,
            "expectedPods": replicas,
        },
    }
    return convert(body, policy.PodDisruptionBudget)
