"""A view written to a file: what the controllers see of a cluster, without what nobody needs to know.

Our types hold no environment, no commands and no images, so a snapshot cannot leak them. What could is left out here: the copy
of the whole object that `kubectl apply` keeps in an annotation, and Secrets, which no controller watches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.snapshot.view import Still

API_VERSION = "plimsoll.dev/v1"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Fields that hold names, wherever they stand. Selectors and labels are told apart below: their keys stay, their values go.
_NAMES = frozenset(
    {
        "name",
        "namespace",
        "nodeName",
        "nominatedNodeName",
        "claimName",
        "volumeName",
        "serviceName",
        "generateName",
        "uid",
    }
)
# Mappings whose values are names that people chose.
_VALUES = frozenset({"labels", "matchLabels", "nodeSelector"})
# Labels that decisions read as they are, and that say nothing about whose cluster it is.
_KEPT = ("topology.kubernetes.io/", "node.kubernetes.io/", "kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/",
         "eks.amazonaws.com/capacityType", "cloud.google.com/gke-", "kubernetes.azure.com/", "spotinst.io/",
         "spotalis.io/", "pod-deletion-cost.lablabs.io/")  # fmt: skip
# Requirements of these fields name objects.
_NAME_FIELDS = frozenset({"metadata.name", "kubernetes.io/hostname"})


def snapshot(still: Still, *, hashed: bool = False) -> dict[str, Any]:
    """One document, as `explain -f` and `simulate --snapshot` read it."""
    items = [_written(resource, obj) for resource, obj in _objects(still)]
    if hashed:
        items = [_hashed(item) for item in items]
    return {
        "apiVersion": API_VERSION,
        "kind": "Snapshot",
        "takenAt": still.at.isoformat().replace("+00:00", "Z"),
        "items": items,
    }


def _objects(still: Still) -> Iterator[tuple[Resource[Any], KubeObject]]:
    for store in sorted(still.view.stores(), key=lambda one: one.resource.plural):
        for obj in sorted(store, key=lambda one: (one.namespace, one.name)):
            yield store.resource, obj


def _written(resource: Resource[Any], obj: KubeObject) -> dict[str, Any]:
    body: dict[str, Any] = builtins(obj)
    annotations = body.get("metadata", {}).get("annotations")
    if annotations:
        annotations.pop(_LAST_APPLIED, None)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _hashed(value: Any, field: str = "") -> Any:
    """The same name is hashed alike everywhere, so that owners, nodes and selectors still meet."""
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
    """A StatefulSet's pods keep their ordinal: placement reads the class from it."""
    base, dash, ordinal = text.rpartition("-")
    if dash and ordinal.isdecimal() and base:
        return f"{_name(base)}-{ordinal}"
    return "h" + hashlib.sha256(text.encode()).hexdigest()[:12]


def kinds(document: Mapping[str, Any]) -> dict[str, int]:
    """How many objects of each kind a snapshot holds, for a person to see what was written."""
    counted: dict[str, int] = {}
    for item in document["items"]:
        counted[item["kind"]] = counted.get(item["kind"], 0) + 1
    return counted
