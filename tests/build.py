"""Objects for tests, described by what matters and typed as the API server's are."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll.kube.codec import convert
from plimsoll.kube.types import apps, core, meta, policy

START = datetime(2026, 1, 1, tzinfo=UTC)
_serial = itertools.count(1)


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def metadata(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    number = next(_serial)
    owner: meta.KubeObject | None = fields.pop("owner", None)
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{number}",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": _stamp(START),
        **fields,
    }
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": type(owner).__name__,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ]
    return meta


def pod(
    name: str = "",
    *,
    namespace: str = "default",
    owner: meta.KubeObject | None = None,
    node: str = "n1",
    ready: bool = True,
    phase: str = "Running",
    terminating: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready_for: timedelta = timedelta(minutes=10),
    spec: Mapping[str, Any] | None = None,
    **meta: Any,
) -> core.Pod:
    name = name or f"pod-{next(_serial)}"
    if terminating:
        meta["deletionTimestamp"] = _stamp(START)
    status: dict[str, Any] = {"phase": phase}
    if phase == "Running":
        since = _stamp(START - ready_for)
        status["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}]
        status["startTime"] = since
    body = {
        "metadata": metadata(
            name, namespace, owner=owner, labels=dict(labels or {}), annotations=dict(annotations or {}), **meta
        ),
        "spec": {"containers": [{"name": "main"}], "nodeName": node, **(spec or {})},
        "status": status,
    }
    return convert(body, core.Pod)


def node(
    name: str, *, zone: str = "", labels: Mapping[str, str] | None = None, ready: bool = True, **meta: Any
) -> core.Node:
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone:
        all_labels["topology.kubernetes.io/zone"] = zone
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    body = {
        "metadata": metadata(name, "", labels=all_labels, **meta),
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": _stamp(START)}],
        },
    }
    return convert(body, core.Node)


def deployment(
    name: str = "web",
    *,
    replicas: int = 3,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    **meta: Any,
) -> apps.Deployment:
    return convert(_workload(name, namespace, replicas, annotations=dict(annotations or {}), **meta), apps.Deployment)


def replica_set(
    name: str = "web-1",
    *,
    replicas: int = 3,
    owner: meta.KubeObject | None = None,
    namespace: str = "default",
    **meta: Any,
) -> apps.ReplicaSet:
    return convert(_workload(name, namespace, replicas, owner=owner, **meta), apps.ReplicaSet)


def stateful_set(name: str = "db", *, replicas: int = 3, namespace: str = "default", **meta: Any) -> apps.StatefulSet:
    return convert(_workload(name, namespace, replicas, **meta), apps.StatefulSet)


def _workload(name: str, namespace: str, replicas: int, **meta: Any) -> dict[str, Any]:
    return {
        "metadata": metadata(name, namespace, generation=1, **meta),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas},
    }


def budget(
    name: str = "pdb",
    *,
    selector: Mapping[str, Any] | None = None,
    allowed: int = 1,
    healthy: int = 3,
    desired: int = 2,
    unhealthy: str = "IfHealthyBudget",
    namespace: str = "default",
    observed_generation: int = 1,
    disrupted: Mapping[str, str] | None = None,
) -> policy.PodDisruptionBudget:
    body = {
        "metadata": metadata(name, namespace, generation=1),
        "spec": {"selector": selector if selector is not None else {}, "unhealthyPodEvictionPolicy": unhealthy},
        "status": {
            "observedGeneration": observed_generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": healthy,
            "disruptedPods": dict(disrupted or {}),
        },
    }
    return convert(body, policy.PodDisruptionBudget)
