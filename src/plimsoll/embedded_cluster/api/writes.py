"""What every write does to an object of any kind: names, UIDs, generations, preconditions, finalizers and removal."""

from __future__ import annotations

import functools
import random
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import cel, kinds
from plimsoll.embedded_cluster.api.defaults import defaulted
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    name_of,
    namespace_of,
    terminating,
    without_fields,
)
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.schemas import filled_in, pruned, schema_errors
from plimsoll.embedded_cluster.api.status import (
    FieldError,
    already_exists,
    bad_request,
    conflict,
    forbidden_in,
    invalid_object,
    modified,
    must_name_revision,
    not_found,
    precondition_failed,
    required,
)
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.embedded_cluster.api.timestamps import timestamp
from plimsoll.embedded_cluster.api.validation import field_errors, type_fault
from plimsoll.runtime.clock import Clock

# Without vowels and look-alikes, so that no words appear by chance.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58
# An unconditional PUT is refused for kinds where writers must not overwrite one another.
_NEVER_UNCONDITIONAL = {kinds.LEASES.storage_key, kinds.MUTATING_WEBHOOKS.storage_key, kinds.DEFINITIONS.storage_key}
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Writer:
    """Turns what a client sent into what is stored, or raises StatusError."""

    def __init__(self, storage: Storage, clock: Clock, rng: random.Random) -> None:
        self.storage = storage
        self.clock = clock
        self._rng = rng
        # UIDs of objects from a snapshot. A snapshot of an embedded cluster with the same seed has the UIDs that the generator
        # draws again: the garbage collector would take one object for another.
        self.loaded_uids: set[str] = set()

    def now(self) -> str:
        return timestamp(self.clock.now())

    def new_uid(self) -> str:
        while (uid := str(uuid.UUID(int=self._rng.getrandbits(128), version=4))) in self.loaded_uids:
            continue
        return uid

    def new_suffix(self, length: int = 5) -> str:
        return "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(length))

    # ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepared(self, kind: ResourceKind, namespace: str, obj: Mapping[str, Any]) -> Json:
        """A new object with identity and defaults, as admission receives it."""
        _check_identity(kind, obj)
        fault = type_fault(kind, obj)
        if fault is not None:
            raise bad_request(fault)
        metadata = dict(obj["metadata"])
        self._enter_namespace(kind, namespace, metadata)
        prefix = metadata.get("generateName", "")
        if not metadata.get("name"):
            if not prefix:
                raise invalid_object(kind, "", [required("metadata.name", "name or generateName is required")])
            metadata["name"] = prefix[:_LONGEST_PREFIX] + self.new_suffix()
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
            metadata.pop(field, None)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = self.now()
        if kind.generation or kind.custom:
            metadata["generation"] = 1
        new: Json = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        return self.in_form(kind, _fresh_status(kind, new))

    def _enter_namespace(self, kind: ResourceKind, namespace: str, metadata: Json) -> None:
        if not kind.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.get("namespace", namespace) not in ("", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
        home = self.storage.get(kinds.NAMESPACES, "", namespace)
        if home is None:
            raise not_found(kinds.NAMESPACES, namespace)
        if terminating(home):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden_in(kind, metadata.get("name", ""), why, [cause])

    def create(self, kind: ResourceKind, obj: Json, *, dry_run: bool = False) -> Json:
        """Store a prepared object."""
        name = name_of(obj)
        found = _faults(kind, obj, None)
        if found:
            raise invalid_object(kind, name, found)
        if self.storage.get(kind, namespace_of(obj), name) is not None:
            raise already_exists(kind, name)
        if dry_run:
            return {**obj, "metadata": {**obj["metadata"]}}
        return self.storage.put(kind, obj)

    # ── update ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def updated(
        self, kind: ResourceKind, before: Json, wanted: Json, *, subresource: str = "", patched: bool = False
    ) -> Json:
        """The validated object after an update; equal to `before` if nothing changes."""
        name = name_of(before)
        _check_identity(kind, wanted, name=name)
        fault = type_fault(kind, wanted)
        if fault is not None:
            raise bad_request(fault)
        given = wanted["metadata"]
        version = given.get("resourceVersion", "")
        if not version and (kind.custom or kind.storage_key in _NEVER_UNCONDITIONAL) and not patched:
            raise must_name_revision(kind, name)
        if version and version != before["metadata"]["resourceVersion"]:
            raise modified(kind, name)
        uid = given.get("uid", before["metadata"]["uid"])
        if not patched and uid != before["metadata"]["uid"]:
            where = "/".join(one for one in ("/registry", kind.plural, namespace_of(before), name) if one)
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['metadata']['uid']}"
            told = f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
            raise conflict(kind, name, told)
        after = _restricted(kind, before, wanted, subresource)
        metadata = self._kept_metadata(before, after["metadata"])
        after = {**after, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        after = self.in_form(kind, after)
        found = _faults(kind, after, before)
        if found:
            raise invalid_object(kind, name, found)
        changed = _counted(kind, before) != _counted(kind, after)
        if kind == kinds.DEPLOYMENTS and not subresource:
            changed = changed or annotations_of(before) != annotations_of(after)
        if (kind.generation or kind.custom) and changed:
            generation = before["metadata"].get("generation", 0) + 1
            after = {**after, "metadata": {**after["metadata"], "generation": generation}}
        return after

    def _kept_metadata(self, before: Json, given: Mapping[str, Any]) -> Json:
        metadata = {field: value for field, value in given.items() if value is not None}
        for field in (
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generateName",
            "resourceVersion",
        ):
            metadata.pop(field, None)
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        for field in ("uid", "creationTimestamp", "namespace"):
            if field in before["metadata"]:
                metadata.setdefault(field, before["metadata"][field])
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in metadata and not metadata[field]:
                del metadata[field]
        if terminating(before):
            added = set(metadata.get("finalizers") or ()) - set(before["metadata"].get("finalizers") or ())
            metadata["finalizers"] = [one for one in metadata.get("finalizers") or () if one not in added]
            if not metadata["finalizers"]:
                del metadata["finalizers"]
        return metadata

    def store(self, kind: ResourceKind, before: Json, after: Json) -> Json:
        """Store an update. Without a change nothing is stored; when the last finalizer is gone, a terminating object is removed."""
        if after == before:
            return before
        if terminating(after) and not after["metadata"].get("finalizers") and not _is_waiting(kind, after):
            revision = self.storage.remove(kind, namespace_of(after), name_of(after))["metadata"]["resourceVersion"]
            return {**after, "metadata": {**after["metadata"], "resourceVersion": revision}}
        return self.storage.put(kind, after)

    # ── delete ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def delete(
        self, kind: ResourceKind, before: Json, options: Mapping[str, Any], *, dry_run: bool = False
    ) -> tuple[Json, bool]:
        """Delete an object; returns the object for the response, and whether it is gone."""
        check_preconditions(kind, before, options.get("preconditions") or {})
        metadata = dict(before["metadata"])
        finalizers = [*(metadata.get("finalizers") or ()), *_propagation(options)]
        finalizers = list(dict.fromkeys(finalizers))
        grace = _grace_seconds(kind, before, options)
        waits = grace > 0 or (kind == kinds.NAMESPACES and at(before, "spec", "finalizers"))
        if not waits and not finalizers:
            return (before if dry_run else self.storage.remove(kind, namespace_of(before), name_of(before))), True
        if terminating(before):
            if grace >= metadata.get("deletionGracePeriodSeconds", 0) and finalizers == (
                metadata.get("finalizers") or []
            ):
                return before, False
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", 0))
        elif metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = timestamp(self._end(before, grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if finalizers:
            metadata["finalizers"] = finalizers
        after = {**before, "metadata": metadata}
        if kind == kinds.NAMESPACES:
            after["status"] = {**(before.get("status") or {}), "phase": "Terminating"}
        return (after if dry_run else self.storage.put(kind, after)), False

    def _end(self, before: Json, grace: int) -> datetime:
        if terminating(before):
            begun = datetime.fromisoformat(before["metadata"]["deletionTimestamp"])
            begun -= timedelta(seconds=before["metadata"].get("deletionGracePeriodSeconds", 0))
        else:
            begun = self.clock.now()
        return begun + timedelta(seconds=grace)

    @staticmethod
    def in_form(kind: ResourceKind, obj: Json) -> Json:
        """The object without unknown fields and with defaults."""
        if kind.custom and kind.schema is not None:
            return filled_in(pruned(obj, kind.schema), kind.schema)  # type: ignore[no-any-return]
        return defaulted(kind, obj)


def check_preconditions(kind: ResourceKind, obj: Json, wanted: Mapping[str, Any]) -> None:
    metadata = obj["metadata"]
    for field, word, fate in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(field) not in (None, metadata[field]):
            why = (
                f"the {word} in the precondition ({wanted[field]}) does not match the {word} in record ({metadata[field]}). "
                f"The object might have been {fate}"
            )
            raise precondition_failed(kind, metadata["name"], why)


def _propagation(options: Mapping[str, Any]) -> tuple[str, ...]:
    match options.get("propagationPolicy"):
        case "Foreground":
            return (FOREGROUND,)
        case "Orphan":
            return (ORPHAN,)
    return ()


def _grace_seconds(kind: ResourceKind, obj: Json, options: Mapping[str, Any]) -> int:
    """The grace period; 0 unless the object is a pod that is bound to a node and not finished."""
    if kind != kinds.PODS or not obj["spec"].get("nodeName"):
        return 0
    if at(obj, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    seconds = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
    return max(0, int(seconds))


def _is_waiting(kind: ResourceKind, obj: Json) -> bool:
    """Whether a terminating object stays although it has no finalizers: a stopping pod, a namespace with contents."""
    if kind == kinds.NAMESPACES:
        return bool(at(obj, "spec", "finalizers"))
    return kind == kinds.PODS and bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _check_identity(kind: ResourceKind, obj: Mapping[str, Any], *, name: str = "") -> None:
    given = (obj.get("apiVersion", kind.api_version), obj.get("kind", kind.kind))
    if given != (kind.api_version, kind.kind):
        raise bad_request(
            f"the API version in the data ({given[0]}) or its kind ({given[1]}) does not match the expected "
            f"{kind.api_version}, {kind.kind}"
        )
    metadata = obj.get("metadata")
    if name and isinstance(metadata, Mapping) and metadata.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})"
        )


def _fresh_status(kind: ResourceKind, obj: Json) -> Json:
    """The object with an initial status; only nodes and a few others may be created with a status of their own."""
    if kind == kinds.PODS:
        return {**obj, "status": {"phase": "Pending", "qosClass": _qos(obj)}}
    if not kind.status or kind in (kinds.NODES, kinds.NAMESPACES, kinds.CLAIMS, kinds.VOLUMES):
        return obj
    return without_fields(obj, "status") if kind.custom else {**obj, "status": {}}


def _qos(pod: Json) -> str:
    resources = [at(one, "resources", default={}) for one in at(pod, "spec", "containers", default=[])]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    full = all(
        one.get("limits")
        and {"cpu", "memory"} <= one["limits"].keys()
        and one.get("requests", one["limits"]) == one["limits"]
        for one in resources
    )
    return "Guaranteed" if full else "Burstable"


def _restricted(kind: ResourceKind, before: Json, wanted: Json, subresource: str) -> Json:
    """The wanted object, limited to what the endpoint may change."""
    if subresource == "status":
        changed = {**before, "status": wanted.get("status", {})}
        if kind.custom:
            # For custom objects the status endpoint ignores metadata, apart from resourceVersion.
            return changed
        metadata = {**wanted["metadata"], "ownerReferences": before["metadata"].get("ownerReferences")}
        return {**changed, "metadata": metadata}
    if kind.status:
        kept = {"status": before["status"]} if "status" in before else {}
        return {**without_fields(wanted, "status"), **kept}
    return wanted


def _counted(kind: ResourceKind, obj: Json) -> Any:
    """The fields whose changes increase `metadata.generation`."""
    if kind.custom:
        return without_fields(obj, "metadata", "status") if kind.status else without_fields(obj, "metadata")
    return without_fields(obj, "metadata", "status")


def _faults(kind: ResourceKind, obj: Json, before: Json | None) -> list[Any]:
    found = field_errors(kind, obj, before)
    if kind.custom and kind.schema is not None:
        found += list(schema_errors(without_fields(obj, "metadata"), kind.schema))
        # Validation rules run only on objects that satisfy the schema.
        found = found or list(rule_errors(without_fields(obj, "metadata"), kind.schema))
    return found


def rule_errors(value: Any, schema: Mapping[str, Any], where: str = "") -> Iterator[FieldError]:
    """An error for every rule that a value or a part of it violates."""
    for rule in schema.get("x-kubernetes-validations") or ():
        expression = _expression(rule.get("rule", ""))
        if expression is not None and not _holds(expression, value):
            said = rule.get("message") or f"failed rule: {rule['rule']}"
            yield FieldError("FieldValueInvalid", f"Invalid value: {said}", where)
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for field, inner in value.items():
            of = properties.get(field, others)
            if isinstance(of, Mapping):
                yield from rule_errors(inner, of, f"{where}.{field}".lstrip("."))
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for position, inner in enumerate(value):
            yield from rule_errors(inner, schema["items"], f"{where}[{position}]")


def _holds(expression: cel.Expression, value: Any) -> bool:
    try:
        return cel.evaluates_true(expression, {"self": value})
    except cel.EvaluationError:
        return False


@functools.cache
def _expression(rule: str) -> cel.Expression | None:
    try:
        return cel.parse_expression(rule, ("self",))
    except cel.UnspokenError:
        return None
