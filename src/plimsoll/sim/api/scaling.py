"""The scale subresource: the replica count of anything that has one, in one form."""

from __future__ import annotations

from typing import Any

from plimsoll.sim.api.documents import Json, at, with_value
from plimsoll.sim.api.kinds import Kind
from plimsoll.sim.api.status import bad_request, invalid, invalid_value


def scale_of(obj: Json) -> Json:
    metadata = obj["metadata"]
    kept = {
        field: metadata[field]
        for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if field in metadata
    }
    labels = at(obj, "spec", "selector", "matchLabels", default={})
    expressions = at(obj, "spec", "selector", "matchExpressions", default=[])
    selector = [f"{key}={value}" for key, value in sorted(labels.items())] + [_written(one) for one in expressions]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": at(obj, "spec", "replicas", default=0)},
        "status": {"replicas": at(obj, "status", "replicas", default=0), "selector": ",".join(selector)},
    }


def _written(expression: Json) -> str:
    values = ",".join(sorted(expression.get("values") or ()))
    words = {"In": f"{expression['key']} in ({values})", "NotIn": f"{expression['key']} notin ({values})"}
    words |= {"Exists": expression["key"], "DoesNotExist": f"!{expression['key']}"}
    return words[expression["operator"]]


def scaled(obj: Json, scale: Any) -> Json:
    """The object with the replica count that a Scale asks for."""
    replicas = at(scale, "spec", "replicas", default=0) if isinstance(scale, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request('Scale in version "v1" cannot be handled as a Scale: spec.replicas is no number')
    if replicas < 0:
        fault = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(Kind("autoscaling", "v1", "scales", "Scale"), obj["metadata"]["name"], [fault])
    after = with_value(obj, ("spec", "replicas"), replicas)
    version = at(scale, "metadata", "resourceVersion")
    if version:
        after = with_value(after, ("metadata", "resourceVersion"), version)
    return after
