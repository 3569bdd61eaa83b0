"""The scale subresource: the replica count of any kind that has one."""

from __future__ import annotations

from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Json, at, with_value
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.status import StatusError, bad_request, invalid_object, invalid_value


def scale_of(kind: ResourceKind, obj: Json, *, strict: bool = True) -> Json:
    """strict: raise StatusError if the object has no replica count, as a custom object may."""
    wanted, current, selected = kind.scale_paths
    if strict and kind.custom and at(obj, *wanted) is None:
        why = f'the spec replicas field ".{".".join(wanted)}" does not exist'
        raise StatusError(
            500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
        )
    metadata = obj["metadata"]
    kept = {
        field: metadata[field]
        for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if field in metadata
    }
    status: Json = {"replicas": at(obj, *current, default=0)}
    selector = at(obj, *selected, default="") if kind.custom else _selector(at(obj, *selected, default={}))
    if selector or not kind.custom:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": at(obj, *wanted, default=0)},
        "status": status,
    }


def _selector(selector: Json) -> str:
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    return ",".join(
        [f"{key}={value}" for key, value in sorted(labels.items())] + [_written(one) for one in expressions]
    )


def _written(expression: Json) -> str:
    values = ",".join(sorted(expression.get("values") or ()))
    words = {"In": f"{expression['key']} in ({values})", "NotIn": f"{expression['key']} notin ({values})"}
    words |= {"Exists": expression["key"], "DoesNotExist": f"!{expression['key']}"}
    return words[expression["operator"]]


def scaled(kind: ResourceKind, obj: Json, scale: Any) -> Json:
    """The object with the replica count that a Scale asks for."""
    replicas = at(scale, "spec", "replicas", default=0) if isinstance(scale, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request('Scale in version "v1" cannot be handled as a Scale: spec.replicas is no number')
    if replicas < 0:
        fault = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object(ResourceKind("autoscaling", "v1", "scales", "Scale"), obj["metadata"]["name"], [fault])
    after = with_value(obj, kind.scale_paths[0], replicas)
    version = at(scale, "metadata", "resourceVersion")
    if version:
        after = with_value(after, ("metadata", "resourceVersion"), version)
    return after
