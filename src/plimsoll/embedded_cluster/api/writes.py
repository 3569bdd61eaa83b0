"""What every write does to an object's metadata, whatever its kind: names, UIDs, generations, revisions, and the end."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.defaults import defaulted
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    name_of,
    namespace_of,
    terminating,
    without,
)
from plimsoll.embedded_cluster.api.kinds import Kind
from plimsoll.embedded_cluster.api.schemas import faults, filled_in, pruned
from plimsoll.embedded_cluster.api.status import (
    already_exists,
    bad_request,
    conflict,
    forbidden_in,
    invalid,
    modified,
    must_name_revision,
    not_found,
    precondition_failed,
    required,
)
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.embedded_cluster.api.timestamps import stamp
from plimsoll.embedded_cluster.api.validation import faults_in, type_fault
from plimsoll.embedded_cluster.api.validation_rules import rule_faults
from plimsoll.runtime.clock import Clock

# Without vowels and look-alikes, so that no word comes out by chance.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58
# An unconditional PUT is refused for kinds where two writers must never overwrite one another unseen.
_NEVER_UNCONDITIONAL = {kinds.LEASES.storage_key, kinds.MUTATING_WEBHOOKS.storage_key, kinds.DEFINITIONS.storage_key}
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Writer:
    """Turns what a client sent into what is stored, or refuses."""

    def __init__(self, storage: Storage, clock: Clock, rng: random.Random) -> None:
        self.storage = storage
        self.clock = clock
        self._rng = rng

    def now(self) -> str:
        return stamp(self.clock.now())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def new_suffix(self, length: int = 5) -> str:
        return "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(length))

    # ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepared(self, kind: Kind, namespace: str, obj: Mapping[str, Any]) -> Json:
        """A new object with its identity and defaults, as admission sees it."""
        _check_identity(kind, obj)
        fault = type_fault(kind, obj)
        if fault is not None:
            raise bad_request(fault)
        metadata = dict(obj["metadata"])
        self._enter_namespace(kind, namespace, metadata)
        prefix = metadata.get("generateName", "")
        if not metadata.get("name"):
            if not prefix:
                raise invalid(kind, "", [required("metadata.name", "name or generateName is required")])
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

    def _enter_namespace(self, kind: Kind, namespace: str, metadata: Json) -> None:
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

    def create(self, kind: Kind, obj: Json, *, dry_run: bool = False) -> Json:
        """Store a prepared object."""
        name = name_of(obj)
        found = _faults(kind, obj, None)
        if found:
            raise invalid(kind, name, found)
        if self.storage.get(kind, namespace_of(obj), name) is not None:
            raise already_exists(kind, name)
        if dry_run:
            return {**obj, "metadata": {**obj["metadata"]}}
        return self.storage.put(kind, obj)

    # ── update ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def updated(self, kind: Kind, before: Json, wanted: Json, *, subresource: str = "", patched: bool = False) -> Json:
        """What an update makes of an object, checked; equal to `before` where it changes nothing."""
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
            raise invalid(kind, name, found)
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

    def store(self, kind: Kind, before: Json, after: Json) -> Json:
        """Put an update into place. One that changes nothing is none, and one that ends the last finalizer is the end."""
        if after == before:
            return before
        if terminating(after) and not after["metadata"].get("finalizers") and not _is_waiting(kind, after):
            revision = self.storage.remove(kind, namespace_of(after), name_of(after))["metadata"]["resourceVersion"]
            return {**after, "metadata": {**after["metadata"], "resourceVersion": revision}}
        return self.storage.put(kind, after)

    # ── delete ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def delete(
        self, kind: Kind, before: Json, options: Mapping[str, Any], *, dry_run: bool = False
    ) -> tuple[Json, bool]:
        """The object as the reply shows it, and whether it is gone."""
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
        metadata["deletionTimestamp"] = stamp(self._end(before, grace))
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
    def in_form(kind: Kind, obj: Json) -> Json:
        """Without what its kind does not know, and with what its author left out."""
        if kind.custom and kind.schema is not None:
            return filled_in(pruned(obj, kind.schema), kind.schema)  # type: ignore[no-any-return]
        return defaulted(kind, obj)


def check_preconditions(kind: Kind, obj: Json, wanted: Mapping[str, Any]) -> None:
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


def _grace_seconds(kind: Kind, obj: Json, options: Mapping[str, Any]) -> int:
    """Only pods that run somewhere are given time to stop."""
    if kind != kinds.PODS or not obj["spec"].get("nodeName"):
        return 0
    if at(obj, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    seconds = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
    return max(0, int(seconds))


def _is_waiting(kind: Kind, obj: Json) -> bool:
    """Whether a terminating object stays without finalizers of its own: a pod that stops, a namespace that empties."""
    if kind == kinds.NAMESPACES:
        return bool(at(obj, "spec", "finalizers"))
    return kind == kinds.PODS and bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _check_identity(kind: Kind, obj: Mapping[str, Any], *, name: str = "") -> None:
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


def _fresh_status(kind: Kind, obj: Json) -> Json:
    """The status of a new object is the server's to give, but for nodes, which register with theirs."""
    if kind == kinds.PODS:
        return {**obj, "status": {"phase": "Pending", "qosClass": _qos(obj)}}
    if not kind.status or kind in (kinds.NODES, kinds.NAMESPACES, kinds.CLAIMS, kinds.VOLUMES):
        return obj
    return without(obj, "status") if kind.custom else {**obj, "status": {}}


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


def _restricted(kind: Kind, before: Json, wanted: Json, subresource: str) -> Json:
    """Only what the endpoint may change."""
    if subresource == "status":
        changed = {**before, "status": wanted.get("status", {})}
        if kind.custom:
            # Of a custom object's metadata nothing but the revision is looked at here.
            return changed
        metadata = {**wanted["metadata"], "ownerReferences": before["metadata"].get("ownerReferences")}
        return {**changed, "metadata": metadata}
    if kind.status:
        kept = {"status": before["status"]} if "status" in before else {}
        return {**without(wanted, "status"), **kept}
    return wanted


def _counted(kind: Kind, obj: Json) -> Any:
    """What a generation counts the changes of."""
    if kind.custom:
        return without(obj, "metadata", "status") if kind.status else without(obj, "metadata")
    return without(obj, "metadata", "status")


def _faults(kind: Kind, obj: Json, before: Json | None) -> list[Any]:
    found = faults_in(kind, obj, before)
    if kind.custom and kind.schema is not None:
        found += list(faults(without(obj, "metadata"), kind.schema))
        # Rules may count on what the schema promises.
        found = found or list(rule_faults(without(obj, "metadata"), kind.schema))
    return found
