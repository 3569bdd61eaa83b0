"""The verbs on objects: get, create, update, patch, delete and the subresources. The server and the controllers call them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.admission import AdmissionChain, WebhookCall
from plimsoll.embedded_cluster.api.event_versions import stored_form
from plimsoll.embedded_cluster.api.eviction import evict
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    name_of,
    namespace_of,
    set_condition,
    terminating,
    without_nulls,
)
from plimsoll.embedded_cluster.api.kind_registry import KindRegistry, established
from plimsoll.embedded_cluster.api.kinds import PODS, PRIORITY_CLASSES, ResourceKind
from plimsoll.embedded_cluster.api.patches import json_patched, merge_patched
from plimsoll.embedded_cluster.api.scale import scale_of, scaled
from plimsoll.embedded_cluster.api.server_side_apply import after_update, applied
from plimsoll.embedded_cluster.api.status import (
    bad_request,
    conflict,
    forbidden_in,
    invalid_object,
    not_found,
    required,
    unsupported_media_type,
)
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.embedded_cluster.api.strategic import strategically_merged
from plimsoll.embedded_cluster.api.writes import Writer
from plimsoll.runtime.clock import Clock

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
APPLY_FORMS = (APPLY, "application/apply-patch+json")
_PATCHES = (JSON_PATCH, MERGE, STRATEGIC, APPLY)


class Objects:
    def __init__(self, storage: Storage, clock: Clock, rng: random.Random, ask: WebhookCall | None) -> None:
        self.storage = storage
        self.catalogue = KindRegistry(storage)
        self.writer = Writer(storage, clock, rng)
        self.admission = AdmissionChain(storage, ask, self.writer.new_uid)

    def get(self, kind: ResourceKind, namespace: str, name: str) -> Json:
        found = self.storage.get(kind, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found

    # ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, kind: ResourceKind, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> Json:
        sent = stored_form(kind, without_nulls(dict(body)))
        generated = isinstance(sent.get("metadata"), dict) and not sent["metadata"].get("name")
        stored = kinds.CORE_EVENTS if kind == kinds.EVENTS else kind
        obj = self.writer.prepared(stored, namespace, sent)
        if kind == kinds.PODS:
            obj = resolve_priority(self.storage, obj)
        obj = await self.admission.admitted(kind, "CREATE", obj, None, dry_run=dry_run, generated=generated)
        if kind == kinds.DEFINITIONS:
            obj = {**obj, "status": established(obj, self.writer.now())}
        if kind == kinds.NODES:
            obj = _not_ready_yet(obj)
        return self.writer.create(stored, obj, dry_run=dry_run)

    # ── change ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def replace(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Json:
        """PUT: the whole object, or the whole of what a subresource shows."""
        if not isinstance(body, dict):
            raise bad_request("the body of the request is no object")

        def wanted(before: Json) -> Json:
            return scaled(kind, before, body) if subresource == "scale" else stored_form(kind, without_nulls(body))

        return await self._change(
            kind, namespace, name, wanted, subresource, manager=manager, patched=False, dry_run=dry_run
        )

    async def patch(
        self, kind: ResourceKind, namespace: str, name: str, body: Any, form: str, *,
        subresource: str = "", manager: str = "", force: bool = False, dry_run: bool = False,
    ) -> tuple[Json, bool]:  # fmt: skip
        """The object after the patch, and whether the patch created it."""
        if form in APPLY_FORMS:
            return await self._apply(
                kind, namespace, name, body, subresource=subresource, manager=manager, force=force, dry_run=dry_run
            )
        if form not in _PATCHES or (form == STRATEGIC and kind.custom):
            raise unsupported_media_type(form, _PATCHES)
        patched = {
            MERGE: merge_patched, JSON_PATCH: json_patched, STRATEGIC: strategically_merged,
        }[form]  # fmt: skip
        if form != JSON_PATCH and not isinstance(body, dict):
            raise bad_request("the patch is no object")

        def wanted(before: Json) -> Json:
            if subresource == "scale":
                return scaled(kind, before, patched(scale_of(kind, before, strict=False), body))
            if kind in (kinds.EVENTS, kinds.CORE_EVENTS):
                return patched(before, stored_form(kind, body))  # type: ignore[no-any-return]
            # A null inside a list deletes nothing but counts as absent.
            return without_nulls(patched(before, body))  # type: ignore[no-any-return]

        return await self._change(
            kind, namespace, name, wanted, subresource, manager=manager, patched=True, dry_run=dry_run
        ), False

    async def _apply(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str,
        manager: str,
        force: bool,
        dry_run: bool,
    ) -> tuple[Json, bool]:
        if not isinstance(body, dict):
            raise bad_request("the applied configuration is no object")
        if not manager:
            options = ResourceKind("meta.k8s.io", "v1", "patchoptions", "PatchOptions")
            raise invalid_object(options, "", [required("fieldManager", "is required for apply patch")])
        if at(body, "metadata", "managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        live, now = self.storage.get(kind, namespace, name), self.writer.now()
        uid = at(body, "metadata", "uid")
        if live is None and (subresource or uid):
            raise (
                not_found(kind, name)
                if subresource
                else conflict(kind, name, "uid mismatch: the object does not exist")
            )

        def made(before: Json | None) -> Json:
            return applied(
                kind, before, body, manager=manager, subresource=subresource, force=force,
                api_version=body.get("apiVersion", kind.api_version), now=now,
            )  # fmt: skip

        if live is None:
            return await self.create(kind, namespace, made(None), dry_run=dry_run), True

        def wanted(before: Json) -> Json:
            version = at(body, "metadata", "resourceVersion")
            after = made(before)
            if version:
                after = {**after, "metadata": {**after["metadata"], "resourceVersion": version}}
            return after

        return await self._change(
            kind, namespace, name, wanted, subresource, manager="", patched=True, dry_run=dry_run
        ), False

    async def _change(
        self, kind: ResourceKind, namespace: str, name: str, wanted: Callable[[Json], Json], subresource: str, *,
        manager: str, patched: bool, dry_run: bool,
    ) -> Json:  # fmt: skip
        before = self.get(kind, namespace, name)
        stored = kinds.CORE_EVENTS if kind == kinds.EVENTS else kind
        part = "" if subresource == "scale" else subresource
        after = self.writer.updated(stored, before, wanted(before), subresource=part, patched=patched)
        if after == before:
            return before
        if not subresource:
            admitted = await self.admission.admitted(kind, "UPDATE", after, before, dry_run=dry_run)
            if self.storage.get(kind, namespace, name) is not before:
                # The object changed during the webhook call: compute the change again on the current object.
                return await self._change(
                    kind, namespace, name, wanted, subresource, manager=manager, patched=patched, dry_run=dry_run
                )
            after = admitted
        if manager:
            after = after_update(stored, before, after, manager=manager, subresource=subresource, now=self.writer.now())
        return after if dry_run else self.writer.store(stored, before, after)

    # ── delete, evict, bind ──────────────────────────────────────────────────────────────────────────────────────────

    def delete(
        self, kind: ResourceKind, namespace: str, name: str, options: Mapping[str, Any], *, dry_run: bool = False
    ) -> tuple[Json, bool]:
        before = self.get(kind, namespace, name)
        obj, gone = self.writer.delete(kind, before, options, dry_run=dry_run)
        if gone and kind == kinds.DEFINITIONS and not dry_run:
            self._delete_instances(before)
        return obj, gone

    def _delete_instances(self, definition: Json) -> None:
        key = (definition["spec"]["group"], definition["spec"]["names"]["plural"])
        kind = ResourceKind(key[0], "", key[1], definition["spec"]["names"]["kind"], custom=True)
        for obj in tuple(self.storage.collection(kind).all()):
            self.storage.remove(kind, namespace_of(obj), name_of(obj))

    def evict(self, namespace: str, name: str, body: Any, *, dry_run: bool) -> None:
        evict(
            self.writer, self.get(kinds.PODS, namespace, name), body if isinstance(body, dict) else {}, dry_run=dry_run
        )

    def bind(self, namespace: str, name: str, body: Any) -> None:
        pod = self.get(kinds.PODS, namespace, name)
        node = at(body, "target", "name") if isinstance(body, dict) else None
        if not node:
            raise bad_request("Binding: target.name: Required value")
        if pod["spec"].get("nodeName"):
            raise conflict(kinds.PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if terminating(pod):
            raise conflict(kinds.PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
        self.bound(pod, node)

    def bound(self, pod: Json, node: str) -> Json:
        scheduled = {"type": "PodScheduled", "status": "True"}
        status = {**pod["status"], "conditions": set_condition(pod, scheduled, self.writer.now())}
        return self.storage.put(kinds.PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})


def _not_ready_yet(node: Json) -> Json:
    """The node with the not-ready taint, which the node lifecycle controller removes once the node reports Ready."""
    key = "node.kubernetes.io/not-ready"
    taints = at(node, "spec", "taints", default=[])
    if any(taint.get("key") == key for taint in taints):
        return node
    return {**node, "spec": {**(node.get("spec") or {}), "taints": [*taints, {"key": key, "effect": "NoSchedule"}]}}


# Every cluster has these.
_SYSTEM: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def resolve_priority(storage: Storage, pod: Json) -> Json:
    """The pod with the priority of its PriorityClass; raises StatusError if the class does not exist."""
    name = at(pod, "spec", "priorityClassName", default="")
    if name in _SYSTEM:
        return _with(pod, {"priority": _SYSTEM[name]})
    found = storage.get(PRIORITY_CLASSES, "", name) if name else _default(storage)
    if found is not None:
        policy = found.get("preemptionPolicy", "PreemptLowerPriority")
        chosen = {"priority": found.get("value", 0), "preemptionPolicy": policy, "priorityClassName": name_of(found)}
        return _with(pod, chosen)
    if name:
        raise forbidden_in(PODS, name_of(pod), f"no PriorityClass with name {name} was found")
    return pod


def _default(storage: Storage) -> Json | None:
    classes = [one for one in storage.collection(PRIORITY_CLASSES).all() if one.get("globalDefault")]
    return min(classes, key=lambda one: one.get("value", 0), default=None)


def _with(pod: Json, chosen: Json) -> Json:
    return {**pod, "spec": {**pod["spec"], **chosen}}
