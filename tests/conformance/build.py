"""Bodies of requests."""

from __future__ import annotations

from typing import Any

from tests.conformance.sides import Json, Side

APPS, POLICY = "apps/v1", "policy/v1"


def config_map(name: str = "one", **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}, **more}


def pod_spec(side: Side, **more: Any) -> Json:
    return {"containers": [{"name": "main", "image": "example.org/none:1"}], **side.pool(), **more}


def pod(side: Side, name: str, *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(side, **spec)}


def deployment(
    side: Side, name: str = "web", *, replicas: int = 3, annotations: Json | None = None, **spec: Any
) -> Json:
    labels = {"app": name}
    grace = {"terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(side, **grace)},
            **spec,
        },
    }


def budget(name: str, app: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def eviction(name: str, **options: Any) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
