"""Validation of built-in kinds, as far as the operator or its users can violate it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from plimsoll.embedded_cluster.api import cel, kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, object_labels, without_fields, without_nulls
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.status import FieldError, forbidden, invalid_value, not_supported, required
from plimsoll.kube.codec import convert
from plimsoll.kube.types import apps, core
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.kube.types.selectors import selects
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_LONGEST_ANNOTATIONS = 256 * 1024
# Fields of a pod's spec that an update may change.
_MUTABLE_POD_FIELDS = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_POD_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def field_errors(kind: ResourceKind, obj: Json, before: Json | None = None) -> list[FieldError]:
    """All validation errors of an object, or of a change to it."""
    found = list(_metadata_faults(kind, obj, before))
    rule = _RULES.get(kind.storage_key)
    if rule is not None:
        found += rule(obj, before)
    return found


def _metadata_faults(kind: ResourceKind, obj: Json, before: Json | None) -> Iterator[FieldError]:
    metadata = obj["metadata"]
    name = metadata["name"]
    # Names of RBAC objects may contain anything that is valid in a path.
    if kind.group != "rbac.authorization.k8s.io" and (len(name) > 253 or not _NAME.fullmatch(name)):
        yield invalid_value("metadata.name", name, _SUBDOMAIN)
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key):
            yield invalid_value(
                "metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            yield invalid_value(
                "metadata.labels", value, "a valid label must be an empty string or consist of alphanumeric characters"
            )
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if not _QUALIFIED.fullmatch(key.lower()):
            why = "name part must consist of alphanumeric characters, '-', '_' or '.'"
            yield invalid_value("metadata.annotations", key, why)
    if sum(len(key) + len(value) for key, value in annotations.items()) > _LONGEST_ANNOTATIONS:
        yield FieldError(
            "FieldValueTooLong", f"Too long: may not be more than {_LONGEST_ANNOTATIONS} bytes", "metadata.annotations"
        )
    for position, owner in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                where = f"metadata.ownerReferences[{position}].{field}"
                yield invalid_value(where, owner.get(field, ""), f"{field} must not be empty")
    if before is not None:
        for field in ("uid", "creationTimestamp", "deletionTimestamp"):
            if metadata.get(field) != before["metadata"].get(field):
                yield invalid_value(f"metadata.{field}", metadata.get(field), "field is immutable")


def type_fault(kind: ResourceKind, obj: Mapping[str, Any]) -> str | None:
    """Why an object cannot be decoded as its kind (a 400 response), or None."""
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return f"{what}: metadata is no object"
    for field in ("name", "namespace", "generateName", "uid", "resourceVersion"):
        if not isinstance(metadata.get(field, ""), str):
            return f"{what}: json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string"
    for field in ("labels", "annotations"):
        entries = metadata.get(field) or {}
        if not isinstance(entries, dict) or any(not isinstance(value, str) for value in entries.values()):
            return f"{what}: json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string"
    try:
        convert(without_nulls(obj), _READ_AS.get(kind.storage_key, KubeObject))
    except (msgspec.ValidationError, ValueError) as error:
        return f"{what}: {error}"
    return None


# Types of the fields that the embedded cluster reads; other fields are stored unchecked.
_READ_AS: Mapping[tuple[str, str], type[KubeObject]] = {
    kinds.PODS.storage_key: core.Pod,
    kinds.NODES.storage_key: core.Node,
    kinds.DEPLOYMENTS.storage_key: apps.Deployment,
    kinds.REPLICASETS.storage_key: apps.ReplicaSet,
    kinds.STATEFULSETS.storage_key: apps.StatefulSet,
    kinds.DAEMONSETS.storage_key: apps.DaemonSet,
    kinds.BUDGETS.storage_key: PodDisruptionBudget,
    kinds.LEASES.storage_key: Lease,
    kinds.CONFIGMAPS.storage_key: ConfigMap,
    kinds.CLAIMS.storage_key: PersistentVolumeClaim,
    kinds.VOLUMES.storage_key: PersistentVolume,
}


def _pod_faults(obj: Json, before: Json | None) -> list[FieldError]:
    if before is None:
        return list(_spec_faults(obj.get("spec") or {}, "spec"))
    if _fixed(obj["spec"]) != _fixed(before["spec"]):
        return [forbidden("spec", _POD_UPDATES)]
    return []


def _fixed(spec: Json) -> Json:
    left = without_fields(spec, *_MUTABLE_POD_FIELDS)
    for field in ("containers", "initContainers"):
        if field in left:
            left[field] = [without_fields(container, "image") for container in left[field]]
    return left


def _spec_faults(spec: Mapping[str, Any], where: str) -> Iterator[FieldError]:
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{where}.containers")
    seen: set[str] = set()
    for position, container in enumerate(containers):
        here = f"{where}.containers[{position}]"
        name = container.get("name")
        if not name:
            yield required(f"{here}.name")
        elif name in seen:
            yield FieldError("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{here}.name")
        seen.add(name or "")
        if not container.get("image"):
            yield required(f"{here}.image")
        for group in ("requests", "limits"):
            for resource, amount in at(container, "resources", group, default={}).items():
                try:
                    parse_quantity(str(amount))
                except ValueError:
                    yield invalid_value(f"{here}.resources.{group}[{resource}]", amount, "must be a quantity")


def _workload_faults(obj: Json, before: Json | None) -> list[FieldError]:
    spec, found = obj["spec"], list[FieldError]()
    if spec.get("replicas", 0) < 0:
        found.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        found.append(required("spec.selector"))
    else:
        labels = object_labels({"metadata": {}, **template})
        if not selects(selector_of(selector), labels):
            where = "spec.template.metadata.labels"
            found.append(invalid_value(where, dict(labels), "`selector` does not match template `labels`"))
    found += _spec_faults(template.get("spec") or {}, "spec.template.spec")
    if selector and before is not None and selector != before["spec"].get("selector"):
        found.append(invalid_value("spec.selector", selector, "field is immutable"))
    return found


def _budget_faults(obj: Json, before: Json | None) -> list[FieldError]:
    del before
    spec, found = obj.get("spec") or {}, list[FieldError]()
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(invalid_value("spec", {}, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            found.append(invalid_value(f"spec.{field}", value, "must be greater than or equal to 0"))
        if isinstance(value, str) and not re.fullmatch(r"\d+%", value):
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            found.append(invalid_value(f"spec.{field}", value, why))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "IfHealthyBudget", "AlwaysAllow"):
        found.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")))
    return found


def _lease_faults(obj: Json, before: Json | None) -> list[FieldError]:
    del before
    spec, found = obj.get("spec") or {}, list[FieldError]()
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        found.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return found


def _event_faults(obj: Json, before: Json | None) -> list[FieldError]:
    del before
    note = obj.get("message", "")
    return [invalid_value("note", "", "can have at most 1024 bytes")] if len(note.encode()) > 1024 else []


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _node_faults(obj: Json, before: Json | None) -> list[FieldError]:
    del before
    found, seen = list[FieldError](), set[tuple[str, str]]()
    for position, taint in enumerate(at(obj, "spec", "taints", default=[])):
        where, key = f"spec.taints[{position}]", (taint.get("key", ""), taint.get("effect", ""))
        if not key[0]:
            found.append(required(f"{where}.key"))
        if key[1] not in _EFFECTS:
            found.append(not_supported(f"{where}.effect", key[1], _EFFECTS))
        elif key in seen:
            found.append(FieldError("FieldValueDuplicate", f"Duplicate value: {key}", where))
        seen.add(key)
    return found


def _webhook_faults(obj: Json, before: Json | None) -> list[FieldError]:
    """Refuse unsupported matchConditions: otherwise a webhook would receive requests that it excludes."""
    del before
    found = list[FieldError]()
    for position, hook in enumerate(obj.get("webhooks") or ()):
        for number, one in enumerate(hook.get("matchConditions") or ()):
            try:
                cel.parse_expression(str(one.get("expression", "")), cel.CONDITION_VARIABLES)
            except cel.UnspokenError as error:
                where = f"webhooks[{position}].matchConditions[{number}].expression"
                found.append(invalid_value(where, one.get("expression", ""), f"compilation failed: {error}"))
    return found


_RULES: Mapping[tuple[str, str], Callable[[Json, Json | None], list[FieldError]]] = {
    kinds.PODS.storage_key: _pod_faults,
    kinds.NODES.storage_key: _node_faults,
    kinds.DEPLOYMENTS.storage_key: _workload_faults,
    kinds.REPLICASETS.storage_key: _workload_faults,
    kinds.STATEFULSETS.storage_key: _workload_faults,
    kinds.DAEMONSETS.storage_key: _workload_faults,
    kinds.BUDGETS.storage_key: _budget_faults,
    kinds.LEASES.storage_key: _lease_faults,
    kinds.CORE_EVENTS.storage_key: _event_faults,
    kinds.MUTATING_WEBHOOKS.storage_key: _webhook_faults,
    kinds.VALIDATING_WEBHOOKS.storage_key: _webhook_faults,
}
