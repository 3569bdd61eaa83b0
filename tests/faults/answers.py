"""Refusals in the form in which the API server gives them: a Status with code, reason, details and causes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.calls import Call


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, from the API server or in its name."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


def status(
    code: int,
    reason: str,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": dict(metadata or {})}
    found |= {"status": "Failure", "message": message}
    if reason:
        found["reason"] = reason
    if details:
        found["details"] = dict(details)
    return found | {"code": code}


def refusal(
    code: int,
    reason: str,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    retry_after_seconds: int | None = None,
) -> Reply:
    headers = {"Content-Type": "application/json"}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
        details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}
    body = json.dumps(status(code, reason, message, details=details, metadata=metadata)).encode()
    return Reply(code, body, headers)


def conflict(call: Call) -> Reply:
    return refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {call.resource} "{call.name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        details={"name": call.name, "group": call.group, "kind": call.resource},
    )


def budget_exhausted(call: Call) -> Reply:
    """What eviction answers while a PodDisruptionBudget allows none. It names no time after which to come back."""
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget all needs 3 healthy pods and has 3 currently",
    }
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return refusal(429, "TooManyRequests", message, details={"causes": [cause]})


def two_budgets(call: Call) -> Reply:
    """What eviction answers when two PodDisruptionBudgets match: a 500 without a reason, for as long as both exist."""
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    return refusal(500, "", message)


def throttled(call: Call, *, retry_after_seconds: int = 1) -> Reply:
    message = "Too many requests, please try again later."
    return refusal(429, "TooManyRequests", message, retry_after_seconds=retry_after_seconds)


def internal_error(call: Call) -> Reply:
    message = "Internal error occurred: etcdserver: request timed out"
    return refusal(500, "InternalError", message, details={"causes": [{"message": "etcdserver: request timed out"}]})


def unavailable(call: Call) -> Reply:
    """As a load balancer says it: not JSON, and not from the API server at all."""
    return Reply(503, b"upstream connect error or disconnect/reset before headers\n", {"Content-Type": "text/plain"})


def timed_out(call: Call) -> Reply:
    message = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return refusal(504, "Timeout", message)


def forbidden(call: Call) -> Reply:
    where = f' in the namespace "{call.namespace}"' if call.namespace else " at the cluster scope"
    message = (
        f'{call.resource} is forbidden: User "plimsoll" cannot {call.verb} resource "{call.resource}" '
        f'in API group "{call.group}"{where}'
    )
    return refusal(403, "Forbidden", message, details={"group": call.group, "kind": call.resource})


def expired(call: Call) -> Reply:
    return refusal(410, "Expired", "too old resource version: 1 (2)")


def expired_page(call: Call) -> Reply:
    """What a list answers when its continue token is too old.

    The answer holds another token that leads on through *today's* objects: a client that takes it, as the message invites
    it to, holds a list that never was.
    """
    message = "The provided continue parameter is too old to display a consistent list result."
    return refusal(410, "Expired", message, metadata={"continue": astray(call.params.get("continue", ""))})


def astray(token: str) -> str:
    """The token that leads on from the same object; version -1 means whatever is current."""
    if not token:
        return ""
    place = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps(place | {"rv": -1}).encode()).decode().rstrip("=")


def watch_expired() -> bytes:
    """The last line of a watch whose history is gone."""
    gone = status(410, "Expired", "The resourceVersion for the provided watch is too old.")
    return json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
