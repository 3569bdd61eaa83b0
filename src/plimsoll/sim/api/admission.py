"""Mutating webhooks: who is asked about a write before it is made, and what their patches do.

`matchConditions` are not evaluated, so a webhook is asked about more than it wants to know; a correct one answers such a request
without a patch. Services are not resolved: only webhooks with a `url` are asked.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from plimsoll.kube.selectors import selects
from plimsoll.sim.api.documents import Json, at, labels_of, name_of, namespace_of
from plimsoll.sim.api.kinds import MUTATING_WEBHOOKS, NAMESPACES, Kind
from plimsoll.sim.api.patches import json_patched
from plimsoll.sim.api.selecting import selector_of
from plimsoll.sim.api.status import Refused
from plimsoll.sim.api.storage import Storage

# Sends a review to a webhook: its address, the certificate authority (PEM), the review, seconds. Returns the answer.
Ask = Callable[[str, bytes, Json, float], Awaitable[Json]]


class UnansweredError(Exception):
    """A webhook could not be asked, or did not answer as it should."""


class Admission:
    def __init__(self, storage: Storage, ask: Ask | None, new_uid: Callable[[], str]) -> None:
        self._storage = storage
        self._ask = ask
        self._new_uid = new_uid

    async def admitted(
        self, kind: Kind, operation: str, obj: Json, before: Json | None, *, dry_run: bool, generated: bool = False
    ) -> Json:
        """The object as the webhooks leave it; refused where one of them says no."""
        if self._ask is None or kind == MUTATING_WEBHOOKS:
            return obj
        for configuration in tuple(self._storage.collection(MUTATING_WEBHOOKS).all()):
            for hook in configuration.get("webhooks") or ():
                if self._concerns(hook, kind, operation, obj):
                    obj = await self._asked(hook, kind, operation, obj, before, dry_run=dry_run, generated=generated)
        return obj

    def _concerns(self, hook: Mapping[str, Any], kind: Kind, operation: str, obj: Json) -> bool:
        rules = hook.get("rules") or ()
        if not any(_matches(rule, kind, operation) for rule in rules) or not at(hook, "clientConfig", "url"):
            return False
        if not selects(selector_of(hook.get("objectSelector") or {}), labels_of(obj)):
            return False
        if not kind.namespaced:
            return True
        home = self._storage.get(NAMESPACES, "", namespace_of(obj))
        return home is not None and selects(selector_of(hook.get("namespaceSelector") or {}), labels_of(home))

    async def _asked(
        self, hook: Json, kind: Kind, operation: str, obj: Json, before: Json | None, *, dry_run: bool, generated: bool
    ) -> Json:
        uid = self._new_uid()
        group_version = {"group": kind.group, "version": kind.version}
        request = {
            "uid": uid,
            "kind": {**group_version, "kind": kind.kind},
            "resource": {**group_version, "resource": kind.plural},
            "requestKind": {**group_version, "kind": kind.kind},
            "requestResource": {**group_version, "resource": kind.plural},
            # A name that the server made up is not told: the next attempt would have another.
            "name": "" if generated else name_of(obj),
            "namespace": namespace_of(obj),
            "operation": operation,
            "userInfo": {"username": "system:embedded", "groups": ["system:masters"]},
            "object": _unnamed(obj) if generated else obj,
            "oldObject": before,
            "dryRun": dry_run,
            "options": {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        bundle = base64.b64decode(at(hook, "clientConfig", "caBundle", default=""))
        try:
            answer = await self._ask(hook["clientConfig"]["url"], bundle, review, float(hook.get("timeoutSeconds", 10)))  # type: ignore[misc]
            response = answer.get("response")
            if not isinstance(response, dict) or response.get("uid") != uid:
                raise UnansweredError("the answer is for another request")  # noqa: TRY301
        except UnansweredError as error:
            if hook.get("failurePolicy") == "Ignore":
                return obj
            message = f'Internal error occurred: failed calling webhook "{hook["name"]}": {error}'
            raise Refused(500, "InternalError", message) from error
        if not response.get("allowed"):
            why = at(response, "status", "message", default="denied the request without explanation")
            message = f'admission webhook "{hook["name"]}" denied the request: {why}'
            raise Refused(
                at(response, "status", "code", default=400), at(response, "status", "reason", default=""), message
            )
        if not response.get("patch"):
            return obj
        return json_patched(obj, msgspec.json.decode(base64.b64decode(response["patch"])))


def _unnamed(obj: Json) -> Json:
    metadata = {field: value for field, value in obj["metadata"].items() if field not in ("name", "uid")}
    return {**obj, "metadata": metadata}


def _matches(rule: Mapping[str, Any], kind: Kind, operation: str) -> bool:
    def one_of(field: str, value: str) -> bool:
        wanted = rule.get(field) or ()
        return "*" in wanted or value in wanted

    scope = rule.get("scope", "*")
    return (
        one_of("operations", operation)
        and one_of("apiGroups", kind.group)
        and one_of("apiVersions", kind.version)
        and (one_of("resources", kind.plural) or "*/*" in (rule.get("resources") or ()))
        and (scope == "*" or (scope == "Namespaced") is kind.namespaced)
    )
