"""The values that the API server writes into objects of the built-in kinds where the user left them out.

Only what someone can notice: controllers and the scheduler read it, `kubectl` prints it, or a later patch builds on it.
Nothing here changes its argument: pods share the template that they were made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, with_value
from plimsoll.embedded_cluster.api.kinds import ResourceKind

_CONTAINER: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_POD_SPEC: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
# Added by admission to pods, not to templates.
_ADMITTED: Json = {"enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}
# The plug-in DefaultTolerationSeconds: a pod stays on an unreachable node for five minutes.
_OUTAGES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_OUTAGE_SECONDS = 300


def defaulted(kind: ResourceKind, obj: Json) -> Json:
    rule = _RULES.get(kind.storage_key)
    return rule(obj) if rule else obj


def _pod(obj: Json) -> Json:
    spec = {**_ADMITTED, **pod_spec(obj.get("spec") or {})}
    return {**obj, "spec": {**spec, "tolerations": _with_outages(spec.get("tolerations") or [])}}


def _with_outages(tolerations: list[Json]) -> list[Json]:
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _OUTAGE_SECONDS}
        for key in _OUTAGES
        if not any(t.get("key", key) == key and t.get("effect", "NoExecute") in ("", "NoExecute") for t in tolerations)
    ]
    return [*tolerations, *added]


def pod_spec(spec: Mapping[str, Any]) -> Json:
    filled = {**_POD_SPEC, **spec}
    for field in ("containers", "initContainers"):
        if isinstance(filled.get(field), list):
            filled[field] = [_container(one) for one in filled[field]]
    return filled


def _container(container: Json) -> Json:
    image = str(container.get("image", ""))
    pulled = "Always" if image.endswith(":latest") or ":" not in image.rpartition("/")[2] else "IfNotPresent"
    filled = {**_CONTAINER, "imagePullPolicy": pulled, "resources": {}, **container}
    limits = at(filled, "resources", "limits")
    if limits:
        requests = at(filled, "resources", "requests", default={})
        filled["resources"] = {**filled["resources"], "requests": {**limits, **requests}}
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _templated(**defaults: Any) -> Callable[[Json], Json]:
    def rule(obj: Json) -> Json:
        spec = {**defaults, **(obj.get("spec") or {})}
        template = spec.get("template")
        if isinstance(template, dict):
            metadata = {"creationTimestamp": None, **(template.get("metadata") or {})}
            spec["template"] = {**template, "metadata": metadata, "spec": pod_spec(template.get("spec") or {})}
        return {**obj, "spec": spec}

    return rule


_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}
_deployment_fields = _templated(replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
_stateful_set_fields = _templated(
    replicas=1,
    podManagementPolicy="OrderedReady",
    revisionHistoryLimit=10,
    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
)


def _deployment(obj: Json) -> Json:
    obj = _deployment_fields(obj)
    strategy = obj["spec"].get("strategy") or {}
    kind = strategy.get("type", "RollingUpdate")
    if kind == "RollingUpdate":
        strategy = {**strategy, "type": kind, "rollingUpdate": {**_ROLLING, **(strategy.get("rollingUpdate") or {})}}
    return with_value(obj, ("spec", "strategy"), strategy)


def _stateful_set(obj: Json) -> Json:
    obj = _stateful_set_fields(obj)
    if at(obj, "spec", "updateStrategy", "type") == "RollingUpdate":
        rolling = {"partition": 0, **at(obj, "spec", "updateStrategy", "rollingUpdate", default={})}
        return with_value(obj, ("spec", "updateStrategy", "rollingUpdate"), rolling)
    return obj


def _namespace(obj: Json) -> Json:
    labels = {**at(obj, "metadata", "labels", default={}), "kubernetes.io/metadata.name": at(obj, "metadata", "name")}
    return {
        **obj,
        "metadata": {**obj["metadata"], "labels": labels},
        "spec": {"finalizers": ["kubernetes"], **(obj.get("spec") or {})},
        "status": {"phase": "Active", **(obj.get("status") or {})},
    }


def _webhooks(obj: Json) -> Json:
    filled = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    }
    return {**obj, "webhooks": [{**filled, **hook} for hook in obj.get("webhooks") or ()]}


def _service(obj: Json) -> Json:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(obj.get("spec") or {})}
    ports = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec.get("ports") or ()]
    return {**obj, "spec": {**spec, "ports": ports} if ports else spec}


_RULES: Mapping[tuple[str, str], Callable[[Json], Json]] = {
    kinds.PODS.storage_key: _pod,
    kinds.NAMESPACES.storage_key: _namespace,
    kinds.SERVICES.storage_key: _service,
    kinds.DEPLOYMENTS.storage_key: _deployment,
    kinds.REPLICASETS.storage_key: _templated(replicas=1),
    kinds.STATEFULSETS.storage_key: _stateful_set,
    kinds.DAEMONSETS.storage_key: _templated(
        revisionHistoryLimit=10,
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    ),
    kinds.MUTATING_WEBHOOKS.storage_key: _webhooks,
    kinds.VALIDATING_WEBHOOKS.storage_key: _webhooks,
}
