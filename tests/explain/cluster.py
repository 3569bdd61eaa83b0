"""A small cluster as a file: two spot and two on-demand nodes, a Deployment that drifted, a pod that waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import yaml

from plimsoll.kube.codec import builtins
from tests import build

ANNOTATIONS = {
    "spotalis.io/enabled": "true",
    "spotalis.io/spot-percentage": "50%",
    "spotalis.io/min-on-demand": "1",
    "pod-deletion-cost.lablabs.io/enabled": "true",
}
KINDS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Pod": "v1",
    "Node": "v1",
    "PodDisruptionBudget": "policy/v1",
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}


def objects(*, annotations: dict[str, str] | None = None, waiting: bool = False) -> list[Any]:
    """Four replicas, one of them on spot, where two should be."""
    spot = {"karpenter.sh/capacity-type": "spot"}
    found: list[Any] = [
        build.node("s-1", zone="a", labels=spot),
        build.node("s-2", zone="b", labels=spot),
        build.node("d-1", zone="a"),
        build.node("d-2", zone="b"),
    ]
    deployment = build.deployment("web", replicas=4, namespace="shop", annotations=annotations or ANNOTATIONS)
    replica_set = build.replica_set("web-1", replicas=4, owner=deployment, namespace="shop")
    found += [deployment, replica_set]
    for number, node in enumerate(("s-1", "d-1", "d-1", "d-2")):
        found.append(
            build.pod(
                f"web-1-{number}", namespace="shop", owner=replica_set, node=node, ready_for=timedelta(hours=1 + number)
            )
        )
    if waiting:
        big = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "64"}}}]}
        found.append(build.pod("big", namespace="shop", node="", ready=False, phase="Pending", spec=big))
    return found


def as_file(items: list[Any], **top: Any) -> str:
    written = []
    for item in items:
        kind = type(item).__name__
        body = builtins(item)
        if kind == "Deployment":
            body["status"].update(updatedReplicas=4, availableReplicas=4)
            body["spec"]["template"] = TEMPLATE
        written.append({"apiVersion": KINDS[kind], "kind": kind, **body})
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", **top, "items": written})
