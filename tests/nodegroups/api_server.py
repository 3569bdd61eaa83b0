"""The API server, as far as node groups lean on it: UIDs and versions, merge patches, finalizers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from datetime import datetime
from typing import Any

from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.resources import (
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Resource,
)
from plimsoll.runtime.decision import Create, Delete, Patch
from plimsoll.runtime.transaction import WriteResult

KINDS: tuple[Resource[Any], ...] = (
    NODE_GROUPS, VPSIE_NODES, NODES, PODS, BUDGETS, NAMESPACES, CLAIMS, VOLUMES, DAEMONSETS, DEPLOYMENTS, REPLICASETS,
    STATEFULSETS,
)  # fmt: skip
Json = dict[str, Any]


class Broken(AssertionError):
    """A rule of FAULTS.md did not hold."""


def timestamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


class ApiServer:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.objects: dict[Resource[Any], dict[tuple[str, str], Json]] = {kind: {} for kind in KINDS}
        self._typed: dict[Resource[Any], dict[tuple[str, str], tuple[str, Any]]] = {kind: {} for kind in KINDS}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    def put(self, kind: Resource[Any], body: Json) -> Json:
        meta = body.setdefault("metadata", {})
        meta.setdefault("namespace", "" if not kind.namespaced else "default")
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta.setdefault("creationTimestamp", timestamp(self._now()))
        return self.store(kind, body)

    def store(self, kind: Resource[Any], body: Json) -> Json:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[kind][body["metadata"]["namespace"], body["metadata"]["name"]] = body
        return body

    def typed(self, kind: Resource[Any]) -> list[Any]:
        cache, found = self._typed[kind], []
        for name, body in self.objects[kind].items():
            version = body["metadata"]["resourceVersion"]
            if cache.get(name, ("",))[0] != version:
                cache[name] = (version, convert(body, kind.type))
            found.append(cache[name][1])
        return found

    def view(self) -> View:
        return View.of({kind: self.typed(kind) for kind in KINDS})

    def create(self, action: Create) -> WriteResult:
        place = (action.namespace, action.name)
        if place in self.objects[action.resource]:
            return WriteResult("conflict")
        meta = {**action.body.get("metadata", {}), "name": action.name, "namespace": action.namespace}
        return self._done(
            action.resource, self.put(action.resource, {**copy.deepcopy(dict(action.body)), "metadata": meta})
        )

    def patch(self, action: Patch) -> WriteResult:
        target = action.target
        live = self.objects[target.resource].get((target.namespace, target.name))
        if live is None or live["metadata"]["uid"] != target.uid:
            return WriteResult("gone")
        if action.if_unchanged and live["metadata"]["resourceVersion"] != target.resource_version:
            return WriteResult("conflict")
        assert isinstance(action.body, dict)
        changed = _merged(
            live, {k: v for k, v in action.body.items() if (k == "status") == (action.subresource == "status")}
        )
        if changed == live:
            return self._done(target.resource, live)
        if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
            del self.objects[target.resource][target.namespace, target.name]
            return WriteResult("done")
        return self._done(target.resource, self.store(target.resource, changed))

    def delete(self, action: Delete) -> WriteResult:
        target = action.target
        if not target.uid:
            raise Broken("S8: a deletion without a UID")
        live = self.objects[target.resource].get((target.namespace, target.name))
        if live is None or live["metadata"]["uid"] != target.uid:
            return WriteResult("gone")
        if target.resource_version and live["metadata"]["resourceVersion"] != target.resource_version:
            return WriteResult("conflict")
        if live["metadata"].get("finalizers"):
            live = copy.deepcopy(live)
            live["metadata"].setdefault("deletionTimestamp", timestamp(self._now()))
            self.store(target.resource, live)
        else:
            del self.objects[target.resource][target.namespace, target.name]
        return WriteResult("done")

    def _done(self, kind: Resource[Any], body: Json) -> WriteResult:
        return WriteResult("done", convert(body, kind.type))


def _merged(document: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
