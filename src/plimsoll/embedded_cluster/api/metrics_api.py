"""`metrics.k8s.io`: resource usage of pods and nodes, as metrics-server reports it.

Nothing really runs here, so a pod uses a share of what it requests, or what its annotations say: `controlplane.test/cpu-usage` and
`controlplane.test/memory-usage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    condition_true,
    name_of,
    namespace_of,
    object_labels,
)
from plimsoll.embedded_cluster.api.kinds import NODE_METRICS, NODES, PODS, ResourceKind
from plimsoll.embedded_cluster.api.selectors import matcher
from plimsoll.embedded_cluster.api.status import not_found
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.embedded_cluster.api.timestamps import timestamp
from plimsoll.kube.types.quantity import parse_quantity

STEER = "controlplane.test/"
_WINDOW = "15s"  # metrics-server measures so often


class MetricsApi:
    def __init__(self, storage: Storage, *, share: float = 0.5) -> None:
        self._storage = storage
        self.share = share  # of a pod's requests that it uses; may be changed at any time

    def listed(self, kind: ResourceKind, namespace: str, params: Mapping[str, str], now: datetime) -> Json:
        matches = matcher(kind, params.get("labelSelector", ""), params.get("fieldSelector", ""))
        of = self._storage.collection(NODES if kind == NODE_METRICS else PODS).all(namespace)
        found = [self._of(kind, one, now) for one in of if _measurable(kind, one)]
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {},
            "items": [one for one in found if matches is None or matches(one)],
        }

    def one(self, kind: ResourceKind, namespace: str, name: str, now: datetime) -> Json:
        of = self._storage.get(NODES if kind == NODE_METRICS else PODS, namespace, name)
        if of is None or not _measurable(kind, of):
            raise not_found(kind, f"{namespace}/{name}" if namespace else name)
        return self._of(kind, of, now)

    def _of(self, kind: ResourceKind, obj: Json, now: datetime) -> Json:
        metadata: Json = {"name": name_of(obj), "creationTimestamp": timestamp(now)}
        if object_labels(obj):
            metadata["labels"] = dict(object_labels(obj))
        if namespace_of(obj):
            metadata["namespace"] = namespace_of(obj)
        measured = {"metadata": metadata, "timestamp": timestamp(now), "window": _WINDOW}
        if kind == NODE_METRICS:
            running = [pod for pod in self._storage.pods_on(name_of(obj)) if _measurable(PODS, pod)]
            used = [self._used(pod, container) for pod in running for container in pod["spec"]["containers"]]
            return {**measured, "usage": _written(sum(cpu for cpu, _ in used), sum(memory for _, memory in used))}
        containers = [
            {"name": container["name"], "usage": _written(*self._used(obj, container))}
            for container in obj["spec"]["containers"]
        ]
        return {**measured, "containers": containers}

    def _used(self, pod: Json, container: Json) -> tuple[int, int]:
        """Thousandths of cores and of bytes. What annotations say is the pod's, and shared by its containers."""
        requests, said = at(container, "resources", "requests", default={}), annotations_of(pod)
        amounts = []
        for resource in ("cpu", "memory"):
            told = said.get(f"{STEER}{resource}-usage")
            if told is not None:
                amounts.append(_milli(told) // len(pod["spec"]["containers"]))
            else:
                amounts.append(int(_milli(str(requests.get(resource, "0"))) * self.share))
        return amounts[0], amounts[1]


def _measurable(kind: ResourceKind, obj: Json) -> bool:
    """Whether there are metrics: the node is ready, or the pod runs."""
    return condition_true(obj, "Ready") if kind == NODE_METRICS else at(obj, "status", "phase") == "Running"


def _milli(text: str) -> int:
    try:
        return int(parse_quantity(text))
    except ValueError:
        return 0


def _written(cpu: int, memory: int) -> Json:
    return {"cpu": f"{cpu * 1_000_000}n", "memory": f"{memory // 1000 // 1024}Ki"}
