"""Write a view to a file: what the controllers see of a cluster, without confidential data.

Our types declare no environment variables, commands or images, so a snapshot cannot contain them. This module also drops the
last-applied annotation of kubectl. No controller watches Secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.kube.codec import builtins
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.snapshot.view import SnapshotView

API_VERSION = "plimsoll.dev/v1"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Fields that hold names, at any depth. Of selectors and labels only the values are hashed.
_NAMES = frozenset(
    {
        "name",
        "namespace",
        "nodeName",
        "nominatedNodeName",
        "claimName",
        "volumeName",
        "volumeHandle",
        "storageClassName",
        "driver",
        "provisioner",
        "resourceClaimName",
        "podGroupName",
        "serviceName",
        "generateName",
        "uid",
    }
)
# Mappings whose values are hashed.
_VALUES = frozenset({"labels", "matchLabels", "nodeSelector"})
# Labels that decisions read and that do not identify the cluster: kept.
_KEPT = ("topology.kubernetes.io/", "node.kubernetes.io/", "kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/",
         "eks.amazonaws.com/capacityType", "cloud.google.com/gke-", "kubernetes.azure.com/", "spotinst.io/",
         "spotalis.io/", "pod-deletion-cost.lablabs.io/")  # fmt: skip
# Selector keys whose values are object names.
_NAME_FIELDS = frozenset({"metadata.name", "kubernetes.io/hostname"})


def snapshot(snapshot_view: SnapshotView, *, hashed: bool = False) -> dict[str, Any]:
    """The document that `explain -f` and `simulate --snapshot` read."""
    items = [_written(resource, obj) for resource, obj in _objects(snapshot_view)]
    if hashed:
        items = [_hashed(item) for item in items]
    return {
        "apiVersion": API_VERSION,
        "kind": "Snapshot",
        "takenAt": snapshot_view.at.isoformat().replace("+00:00", "Z"),
        "items": items,
    }


def _objects(snapshot_view: SnapshotView) -> Iterator[tuple[Resource[Any], KubeObject]]:
    for store in sorted(snapshot_view.view.stores(), key=lambda one: one.resource.plural):
        for obj in sorted(store, key=lambda one: (one.namespace, one.name)):
            yield store.resource, obj


def _written(resource: Resource[Any], obj: KubeObject) -> dict[str, Any]:
    body: dict[str, Any] = builtins(obj)
    annotations = body.get("metadata", {}).get("annotations")
    if annotations:
        annotations.pop(_LAST_APPLIED, None)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _hashed(value: Any, field: str = "") -> Any:
    """Hash names. Equal names get equal hashes, so owners, nodes and selectors still match."""
    match value:
        case dict():
            if field in _VALUES:
                return {key: _label(key, text) for key, text in value.items()}
            if "operator" in value and "values" in value:
                return {**value, "values": [_label(str(value.get("key", "")), text) for text in value["values"]]}
            return {key: _hashed(one, key) for key, one in value.items()}
        case list():
            return [_hashed(one, field) for one in value]
        case str() if field in _NAMES and value:
            return _name(value)
    return value


def _label(key: str, text: Any) -> Any:
    if not isinstance(text, str) or not text or (key.startswith(_KEPT) and key not in _NAME_FIELDS):
        return text
    return _name(text)


def _name(text: str) -> str:
    """Hash a name but keep its ordinal, from which placement derives the class of StatefulSet pods."""
    base, dash, ordinal = text.rpartition("-")
    if dash and ordinal.isdecimal() and base:
        return f"{_name(base)}-{ordinal}"
    return "h" + hashlib.sha256(text.encode()).hexdigest()[:12]


def kinds(document: Mapping[str, Any]) -> dict[str, int]:
    """The number of objects per kind."""
    counted: dict[str, int] = {}
    for item in document["items"]:
        counted[item["kind"]] = counted.get(item["kind"], 0) + 1
    return counted
