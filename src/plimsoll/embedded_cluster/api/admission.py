"""Webhooks: who is asked about a write before it is made, what the patches of some do, and what the refusal of any does."""

from __future__ import annotations

import base64
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from plimsoll.embedded_cluster.api import cel
from plimsoll.embedded_cluster.api.json_documents import Json, at, labels_of, name_of, namespace_of
from plimsoll.embedded_cluster.api.kinds import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Kind
from plimsoll.embedded_cluster.api.patches import json_patched
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.status import Refused
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.kube.types.selectors import selects

# Everyone is this user: there is no authentication.
USER = {"username": "system:embedded", "groups": ["system:masters", "system:authenticated"]}
# Sends a review to a webhook: its address, the certificate authority (PEM), the review, seconds. Returns the answer.
Ask = Callable[[str, bytes, Json, float], Awaitable[Json]]


class UnansweredError(Exception):
    """A webhook could not be asked, or did not answer as it should."""


_MOST_ROUNDS = 2  # a webhook that asks to be is asked again once


class Admission:
    def __init__(self, storage: Storage, ask: Ask | None, new_uid: Callable[[], str]) -> None:
        self._storage = storage
        self._ask = ask
        self._new_uid = new_uid

    async def admitted(
        self, kind: Kind, operation: str, obj: Json, before: Json | None, *, dry_run: bool, generated: bool = False
    ) -> Json:
        """The object as the webhooks leave it; refused where one of them says no."""
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

    def _hooks(self, kind: Kind) -> list[Json]:
        """In the order of their configurations' names."""
        return [
            hook
            for configuration in self._storage.collection(kind).all()
            for hook in configuration.get("webhooks") or ()
        ]

    def _concerns(self, hook: Json, write: _Write, obj: Json) -> bool:
        rules = hook.get("rules") or ()
        if not any(_matches(rule, write.kind, write.operation) for rule in rules):
            return False
        if not selects(selector_of(hook.get("objectSelector") or {}), labels_of(obj)):
            return False
        if write.kind.namespaced:
            home = self._storage.get(NAMESPACES, "", namespace_of(obj))
            if home is None or not selects(selector_of(hook.get("namespaceSelector") or {}), labels_of(home)):
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
                raise UnansweredError("the answer is for another request")  # noqa: TRY301
        except UnansweredError as error:
            if hook.get("failurePolicy") == "Ignore":
                return obj
            message = (
                f'Internal error occurred: failed calling webhook "{hook["name"]}": failed to call webhook: {error}'
            )
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


@dataclass(frozen=True)
class _Write:
    """What is about to be done to an object."""

    kind: Kind
    operation: str
    before: Json | None
    dry_run: bool
    generated: bool  # the server made its name up

    def request(self, obj: Json) -> Json:
        kind = self.kind
        group_version = {"group": kind.group, "version": kind.version}
        return {
            "kind": {**group_version, "kind": kind.kind},
            "resource": {**group_version, "resource": kind.plural},
            "requestKind": {**group_version, "kind": kind.kind},
            "requestResource": {**group_version, "resource": kind.plural},
            # A name that the server made up is not told: the next attempt would have another.
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
    """Where the webhook is; one behind a Service under the name that its certificate is for."""
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
            if not cel.holds(_expression(one["expression"]), values):
                return False
        except cel.EvaluationError as error:
            failure = failure or f"condition {one['name']!r}: {error}"
    if failure and hook.get("failurePolicy") != "Ignore":
        message = f'{write.kind.group_resource} "{name_of(obj)}" is forbidden: webhook "{hook["name"]}": {failure}'
        raise Refused(403, "Forbidden", message)
    return not failure


@functools.cache
def _expression(text: str) -> cel.Expression:
    return cel.parsed(text, cel.CONDITION_VARIABLES)


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
