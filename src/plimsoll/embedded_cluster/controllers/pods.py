"""Pod predicates and helpers that several controllers share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, at, condition, condition_true, terminating, uid_of
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp


def pod_is_finished(pod: Json) -> bool:
    return at(pod, "status", "phase") in ("Succeeded", "Failed")


def pod_is_active(pod: Json) -> bool:
    return not pod_is_finished(pod) and not terminating(pod)


def pod_is_ready(pod: Json) -> bool:
    return condition_true(pod, "Ready")


def ready_since(pod: Json) -> datetime | None:
    found = condition(pod, "Ready")
    moment = found.get("lastTransitionTime") if found is not None and found.get("status") == "True" else None
    return parse_timestamp(moment) if moment else None


def pod_is_available(pod: Json, min_ready_seconds: int, now: datetime) -> bool:
    since = ready_since(pod)
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def owner_reference(kind: ResourceKind, owner: Json) -> Json:
    return {
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner["metadata"]["name"], "uid": uid_of(owner),
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def from_template(kind: ResourceKind, owner: Json, template: Mapping[str, Any], **metadata: Any) -> Json:
    """A pod from a template: its labels, annotations and spec, and the owner reference."""
    given = template.get("metadata") or {}
    kept = {field: given[field] for field in ("labels", "annotations", "finalizers") if given.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, **metadata, "ownerReferences": [owner_reference(kind, owner)]},
        "spec": template.get("spec") or {},
    }


def int_or_percent(value: int | str | None, total: int, *, up: bool) -> int:
    """An IntOrString resolved against a total, as in `maxSurge` and `minAvailable`."""
    if isinstance(value, str) and value.endswith("%"):
        hundredths = int(value[:-1]) * total
        return -(-hundredths // 100) if up else hundredths // 100
    return int(value or 0)
