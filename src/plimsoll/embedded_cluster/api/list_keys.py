"""The merge keys of lists.

For built-in kinds a table by field name is enough: the names that occur in several places mean the same in each, but for
`ports`. Custom kinds say it in their schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Keys = tuple[str, ...]
SET: Keys = ()  # entries are plain values, each there once

_KEYS: Mapping[str, Keys] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "schedulingGates": ("name",),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "webhooks": ("name",),
    "matchConditions": ("name",),
    "secrets": ("name",),
    "podIPs": ("ip",),
    "finalizers": SET,
}


def built_in_keys(path: Sequence[str]) -> Keys | None:
    """The keys of the list at a path of field names; None for a list that is replaced as a whole."""
    if not path:
        return None
    if path[-1] == "ports":
        return (
            ("containerPort", "protocol") if "containers" in path or "initContainers" in path else ("port", "protocol")
        )
    return _KEYS.get(path[-1])


def schema_keys(schema: Mapping[str, Any] | None, path: Sequence[str]) -> Keys | None:
    """The merge keys of a custom kind's list, from its schema; metadata is the same for all kinds."""
    if path and path[0] == "metadata":
        return built_in_keys(path)
    node: Any = schema
    for field in path:
        if not isinstance(node, Mapping):
            return None
        if node.get("type") == "array":
            node = node.get("items") or {}
        properties = node.get("properties") or {}
        node = properties.get(field, node.get("additionalProperties"))
    if not isinstance(node, Mapping) or node.get("type") != "array":
        return None
    match node.get("x-kubernetes-list-type"):
        case "map":
            return tuple(node.get("x-kubernetes-list-map-keys") or ())
        case "set":
            return SET
    return None


def list_item_key(entry: Any, keys: Keys) -> Any:
    """The key of a list item; `protocol` is TCP unless it says otherwise."""
    if keys == SET:
        return entry
    return tuple(
        entry.get(key, "TCP" if key == "protocol" else None) if isinstance(entry, Mapping) else None for key in keys
    )
