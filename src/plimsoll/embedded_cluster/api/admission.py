"""Admission webhooks: selects the webhooks for a write, applies their patches, and refuses the write if one denies it."""

from __future__ import annotations

import base64
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from plimsoll.embedded_cluster.api import cel
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, namespace_of, object_labels
from plimsoll.embedded_cluster.api.kinds import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, ResourceKind
from plimsoll.embedded_cluster.api.patches import json_patched
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.status import StatusError
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.kube.types.selectors import selects

# Every client is this user: there is no authentication.
USER = {"username": "system:embedded", "groups": ["system:masters", "system:authenticated"]}
# Sends a review to a webhook: URL, CA certificate (PEM), review, timeout in seconds. Returns the response.
WebhookCall = Callable[[str, bytes, Json, float], Awaitable[Json]]


class WebhookCallError(Exception):
    """A webhook call failed or returned an invalid response."""


_MOST_ROUNDS = 2  # reinvocationPolicy IfNeeded allows one more call


class AdmissionChain:
    def __init__(self, storage: Storage, ask: WebhookCall | None, new_uid: Callable[[], str]) -> None:
        self._storage = storage
        self._ask = ask
        self._new_uid = new_uid

    async def admitted(
        self,
        kind: ResourceKind,
        operation: str,
        obj: Json,
        before: Json | None,
        *,
        dry_run: bool,
        generated: bool = False,
    ) -> Json:
        """The object after all webhooks; raises StatusError if one denies the write."""
        if self._ask is None or kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            return obj
        write = _Write(kind, operation, before, dry_run=dry_run, generated=generated)
        obj = await self._mutated(write, obj)
        for hook in self._hooks(VALIDATING_WEBHOOKS):
            if self._concerns(hook, write, obj):
                await self._asked(hook, write, obj)
        return obj

    async def _mutated(self, write: _Write, obj: Json) -> Json:
        seen: dict[str, Json] = {}  # the object as each webhook left it
        for _ in range(_MOST_ROUNDS):
            for hook in self._hooks(MUTATING_WEBHOOKS):
                name = hook["name"]
                again = hook.get("reinvocationPolicy") == "IfNeeded" and seen.get(name) != obj
                if (name not in seen or again) and self._concerns(hook, write, obj):
                    obj = await self._asked(hook, write, obj)
                    seen[name] = obj
        return obj

    def _hooks(self, kind: ResourceKind) -> list[Json]:
        """All webhooks in the order of their configurations' names."""
        return [
            hook
            for configuration in self._storage.collection(kind).all()
            for hook in configuration.get("webhooks") or ()
        ]

    def _concerns(self, hook: Json, write: _Write, obj: Json) -> bool:
        rules = hook.get("rules") or ()
        if not any(_matches(rule, write.kind, write.operation) for rule in rules):
            return False
        if not selects(selector_of(hook.get("objectSelector") or {}), object_labels(obj)):
            return False
        if write.kind.namespaced:
            home = self._storage.get(NAMESPACES, "", namespace_of(obj))
            if home is None or not selects(selector_of(hook.get("namespaceSelector") or {}), object_labels(home)):
                return False
        return _conditions_hold(hook, write, obj)

    async def _asked(self, hook: Json, write: _Write, obj: Json) -> Json:
        uid = self._new_uid()
        review = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {"uid": uid, **write.request(obj)},
        }
        bundle = base64.b64decode(at(hook, "clientConfig", "caBundle", default=""))
        try:
            answer = await self._ask(_address(hook), bundle, review, float(hook.get("timeoutSeconds", 10)))  # type: ignore[misc]
            response = answer.get("response")
            if not isinstance(response, dict) or response.get("uid") != uid:
                raise WebhookCallError("the response has another uid")  # noqa: TRY301
        except WebhookCallError as error:
            if hook.get("failurePolicy") == "Ignore":
                return obj
            message = (
                f'Internal error occurred: failed calling webhook "{hook["name"]}": failed to call webhook: {error}'
            )
            raise StatusError(500, "InternalError", message) from error
        if not response.get("allowed"):
            why = at(response, "status", "message", default="denied the request without explanation")
            message = f'admission webhook "{hook["name"]}" denied the request: {why}'
            raise StatusError(
                at(response, "status", "code", default=400), at(response, "status", "reason", default=""), message
            )
        if not response.get("patch"):
            return obj
        return json_patched(obj, msgspec.json.decode(base64.b64decode(response["patch"])))


@dataclass(frozen=True)
class _Write:
    """The write that is under review."""

    kind: ResourceKind
    operation: str
    before: Json | None
    dry_run: bool
    generated: bool  # the server generated the name

    def request(self, obj: Json) -> Json:
        kind = self.kind
        group_version = {"group": kind.group, "version": kind.version}
        return {
            "kind": {**group_version, "kind": kind.kind},
            "resource": {**group_version, "resource": kind.plural},
            "requestKind": {**group_version, "kind": kind.kind},
            "requestResource": {**group_version, "resource": kind.plural},
            # A generated name is not sent: the next attempt would have another.
            "name": "" if self.generated else name_of(obj),
            "namespace": namespace_of(obj),
            "operation": self.operation,
            "userInfo": USER,
            "object": _unnamed(obj) if self.generated else obj,
            "oldObject": self.before,
            "dryRun": self.dry_run,
            "options": {"kind": f"{self.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        }


def _address(hook: Json) -> str:
    """The webhook's URL; for a Service its DNS name, which the certificate must have."""
    service = at(hook, "clientConfig", "service")
    if service is None:
        return str(at(hook, "clientConfig", "url", default=""))
    path = str(service.get("path", "")).lstrip("/")
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}/{path}"


def _conditions_hold(hook: Json, write: _Write, obj: Json) -> bool:
    conditions = hook.get("matchConditions") or ()
    if not conditions:
        return True
    request = write.request(obj)
    values = {"object": request["object"], "oldObject": write.before, "request": request}
    failure = ""
    for one in conditions:
        try:
            if not cel.evaluates_true(_expression(one["expression"]), values):
                return False
        except cel.EvaluationError as error:
            failure = failure or f"condition {one['name']!r}: {error}"
    if failure and hook.get("failurePolicy") != "Ignore":
        message = f'{write.kind.group_resource} "{name_of(obj)}" is forbidden: webhook "{hook["name"]}": {failure}'
        raise StatusError(403, "Forbidden", message)
    return not failure


@functools.cache
def _expression(text: str) -> cel.Expression:
    return cel.parse_expression(text, cel.CONDITION_VARIABLES)


def _unnamed(obj: Json) -> Json:
    metadata = {field: value for field, value in obj["metadata"].items() if field not in ("name", "uid")}
    return {**obj, "metadata": metadata}


def _matches(rule: Mapping[str, Any], kind: ResourceKind, operation: str) -> bool:
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
