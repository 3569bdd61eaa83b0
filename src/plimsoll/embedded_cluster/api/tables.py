"""Table responses for `kubectl get`: columns of common built-in kinds, and of custom kinds from their CRDs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, object_labels, terminating
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.kube.types.quantity import parse_quantity

Cell = Callable[[Json, datetime], Any]
_NONE = "<none>"


def table(
    kind: ResourceKind,
    objects: Iterable[Json],
    now: datetime,
    *,
    metadata: Json | None = None,
    include: str = "Metadata",
) -> Json:
    """`include`: how much of each object comes with its row; kubectl asks for `Object` with some printers."""
    columns = _columns(kind)
    definitions = [
        {
            "name": name,
            "type": form,
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": int(wide),
        }
        for name, form, wide, _ in columns
    ]
    rows = [
        {"cells": [cell(obj, now) for _, _, _, cell in columns], "object": _object(obj, include)} for obj in objects
    ]
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata or {}, "columnDefinitions": definitions,
        "rows": rows,
    }  # fmt: skip


def _object(obj: Json, include: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return metadata_only(obj)


def metadata_only(obj: Json) -> Json:
    """PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def short_duration(seconds: float) -> str:
    """An age in kubectl's format."""
    seconds = int(seconds)
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return f"{hours // 24}d{hours % 24}h" if hours % 24 else f"{hours // 24}d"
    return f"{hours // 24}d" if hours < 24 * 365 * 2 else f"{hours // (24 * 365)}y"


def _age(obj: Json, now: datetime) -> str:
    return _since(at(obj, "metadata", "creationTimestamp"), now)


def _since(text: str | None, now: datetime) -> str:
    return short_duration((now - parse_timestamp(text)).total_seconds()) if text else "<unknown>"


def _field(*path: str, default: Any = "") -> Cell:
    return lambda obj, _: at(obj, *path, default=default)


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pod_ready(pod: Json, _: datetime) -> str:
    statuses = at(pod, "status", "containerStatuses", default=[])
    return f"{sum(1 for one in statuses if one.get('ready'))}/{len(at(pod, 'spec', 'containers', default=[]))}"


def _pod_status(pod: Json, _: datetime) -> str:
    if terminating(pod):
        return "Terminating"
    reason = at(pod, "status", "reason") or at(pod, "status", "phase", default="Unknown")
    if reason == "Pending" and at(pod, "spec", "nodeName"):
        return "ContainerCreating"
    return str("Completed" if reason == "Succeeded" else reason)


def _restarts(pod: Json, _: datetime) -> str:
    return str(sum(one.get("restartCount", 0) for one in at(pod, "status", "containerStatuses", default=[])))


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _node_status(node: Json, _: datetime) -> str:
    conditions = {one["type"]: one["status"] for one in at(node, "status", "conditions", default=[])}
    status = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{status},SchedulingDisabled" if at(node, "spec", "unschedulable") else status


def _roles(node: Json, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    return ",".join(sorted(key.removeprefix(prefix) for key in object_labels(node) if key.startswith(prefix))) or _NONE


def _address(kind: str) -> Cell:
    def cell(node: Json, _: datetime) -> str:
        found = [one["address"] for one in at(node, "status", "addresses", default=[]) if one.get("type") == kind]
        return found[0] if found else _NONE

    return cell


def _about_node(field: str) -> Cell:
    return lambda node, _: at(node, "status", "nodeInfo", field) or "<unknown>"


# ── workloads ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ready_of_desired(obj: Json, _: datetime) -> str:
    return f"{at(obj, 'status', 'readyReplicas', default=0)}/{at(obj, 'spec', 'replicas', default=0)}"


def _containers(field: str) -> Cell:
    return lambda obj, _: ",".join(
        one.get(field, "") for one in at(obj, "spec", "template", "spec", "containers", default=[])
    )


def _selector(obj: Json, _: datetime) -> str:
    labels = at(obj, "spec", "selector", "matchLabels", default={})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _node_selector(obj: Json, _: datetime) -> str:
    labels = at(obj, "spec", "template", "spec", "nodeSelector", default={})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _number(*path: str) -> Cell:
    return _field(*path, default=0)


_ColumnRow = tuple[str, str, bool, Cell]  # name, type, only with -o wide, value
_NAME: _ColumnRow = ("Name", "string", False, lambda obj, _: name_of(obj))
_AGE: _ColumnRow = ("Age", "string", False, _age)
_WIDE_WORKLOAD: tuple[_ColumnRow, ...] = (
    ("Containers", "string", True, _containers("name")),
    ("Images", "string", True, _containers("image")),
    ("Selector", "string", True, _selector),
)


def _last_seen(event: Json, now: datetime) -> str:
    moment = at(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return _since(moment, now) if moment else _age(event, now)


def _event_object(event: Json, _: datetime) -> str:
    return (
        f"{at(event, 'involvedObject', 'kind', default='').lower()}/{at(event, 'involvedObject', 'name', default='')}"
    )


def _usage(resource: str) -> Cell:
    def cell(obj: Json, _: datetime) -> str:
        parts = obj.get("containers") or [obj]
        milli = sum(int(parse_quantity(part["usage"][resource])) for part in parts)
        return f"{milli}m" if resource == "cpu" else f"{milli // 1000 // 1024}Ki"

    return cell


_USAGE: tuple[_ColumnRow, ...] = (
    _NAME,
    ("cpu", "string", False, _usage("cpu")),
    ("memory", "string", False, _usage("memory")),
    ("Window", "string", False, _field("window")),
)

_TABLES: Mapping[tuple[str, str], tuple[_ColumnRow, ...]] = {
    kinds.PODS.storage_key: (
        _NAME,
        ("Ready", "string", False, _pod_ready),
        ("Status", "string", False, _pod_status),
        ("Restarts", "string", False, _restarts),
        _AGE,
        ("IP", "string", True, _field("status", "podIP", default=_NONE)),
        ("Node", "string", True, _field("spec", "nodeName", default=_NONE)),
        ("Nominated Node", "string", True, _field("status", "nominatedNodeName", default=_NONE)),
        ("Readiness Gates", "string", True, lambda *_: _NONE),
    ),
    kinds.NODES.storage_key: (
        _NAME,
        ("Status", "string", False, _node_status),
        ("Roles", "string", False, _roles),
        _AGE,
        ("Version", "string", False, _field("status", "nodeInfo", "kubeletVersion")),
        ("Internal-IP", "string", True, _address("InternalIP")),
        ("External-IP", "string", True, _address("ExternalIP")),
        ("OS-Image", "string", True, _about_node("osImage")),
        ("Kernel-Version", "string", True, _about_node("kernelVersion")),
        ("Container-Runtime", "string", True, _about_node("containerRuntimeVersion")),
    ),
    kinds.NAMESPACES.storage_key: (_NAME, ("Status", "string", False, _field("status", "phase")), _AGE),
    kinds.DEPLOYMENTS.storage_key: (
        _NAME,
        ("Ready", "string", False, _ready_of_desired),
        ("Up-to-date", "integer", False, _number("status", "updatedReplicas")),
        ("Available", "integer", False, _number("status", "availableReplicas")),
        _AGE,
        *_WIDE_WORKLOAD,
    ),
    kinds.REPLICASETS.storage_key: (
        _NAME,
        ("Desired", "integer", False, _number("spec", "replicas")),
        ("Current", "integer", False, _number("status", "replicas")),
        ("Ready", "integer", False, _number("status", "readyReplicas")),
        _AGE,
        *_WIDE_WORKLOAD,
    ),
    kinds.STATEFULSETS.storage_key: (_NAME, ("Ready", "string", False, _ready_of_desired), _AGE, *_WIDE_WORKLOAD[:2]),
    kinds.DAEMONSETS.storage_key: (
        _NAME,
        ("Desired", "integer", False, _number("status", "desiredNumberScheduled")),
        ("Current", "integer", False, _number("status", "currentNumberScheduled")),
        ("Ready", "integer", False, _number("status", "numberReady")),
        ("Up-to-date", "integer", False, _number("status", "updatedNumberScheduled")),
        ("Available", "integer", False, _number("status", "numberAvailable")),
        ("Node Selector", "string", False, _node_selector),
        _AGE,
        *_WIDE_WORKLOAD,
    ),
    kinds.BUDGETS.storage_key: (
        _NAME,
        ("Min Available", "string", False, lambda obj, _: str(at(obj, "spec", "minAvailable", default="N/A"))),
        ("Max Unavailable", "string", False, lambda obj, _: str(at(obj, "spec", "maxUnavailable", default="N/A"))),
        ("Allowed Disruptions", "integer", False, _number("status", "disruptionsAllowed")),
        _AGE,
    ),
    kinds.LEASES.storage_key: (_NAME, ("Holder", "string", False, _field("spec", "holderIdentity")), _AGE),
    kinds.CONFIGMAPS.storage_key: (_NAME, ("Data", "integer", False, lambda obj, _: len(obj.get("data") or {})), _AGE),
    kinds.CORE_EVENTS.storage_key: (
        ("Last Seen", "string", False, _last_seen),
        ("Type", "string", False, _field("type")),
        ("Reason", "string", False, _field("reason")),
        ("Object", "string", False, _event_object),
        ("Source", "string", True, _field("reportingComponent")),
        ("Message", "string", False, _field("message")),
        ("Name", "string", True, lambda obj, _: name_of(obj)),
    ),
    kinds.NODE_METRICS.storage_key: _USAGE,
    kinds.POD_METRICS.storage_key: _USAGE,
    kinds.DEFINITIONS.storage_key: (
        _NAME,
        ("Created At", "date", False, _field("metadata", "creationTimestamp")),
    ),
}


def _columns(kind: ResourceKind) -> tuple[_ColumnRow, ...]:
    if kind.custom:
        own = tuple((name, form, False, _by_path(path, form)) for name, form, path in kind.columns)
        return (_NAME, *(own or (_AGE,)))
    return _TABLES.get(kind.storage_key, (_NAME, _AGE))


def _by_path(path: str, form: str) -> Cell:
    steps = re.findall(r"\.([A-Za-z0-9_-]+)|\[\?\(@\.(\w+)==['\"]([^'\"]+)['\"]\)\]", path)

    def cell(obj: Json, now: datetime) -> Any:
        value: Any = obj
        for field, key, wanted in steps:
            if field:
                value = value.get(field) if isinstance(value, dict) else None
            else:
                value = next((one for one in value or () if str(one.get(key)) == wanted), None)
        if form == "date":
            return _since(value, now) if value else _NONE
        return value

    return cell
