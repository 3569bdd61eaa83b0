"""Refusals in the words of kube-apiserver: clients decide by code, reason and cause, and people read the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import Kind


class Fault(NamedTuple):
    """What is wrong with one field of an object."""

    reason: str  # FieldValueInvalid, FieldValueRequired, …
    message: str
    field: str


def invalid_value(field: str, value: Any, why: str) -> Fault:
    return Fault("FieldValueInvalid", f"Invalid value: {_shown(value)}: {why}", field)


def required(field: str, why: str = "") -> Fault:
    return Fault("FieldValueRequired", "Required value" + (f": {why}" if why else ""), field)


def forbidden(field: str, why: str) -> Fault:
    return Fault("FieldValueForbidden", f"Forbidden: {why}", field)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Fault:
    listed = ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in allowed)
    return Fault("FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}", field)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ",".join(f'"{k}":{_shown(v)}' for k, v in sorted(value.items())) + "}"
    return "null" if value is None else str(value)


class Refused(Exception):
    """The API server's no."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            self.details["retryAfterSeconds"] = retry_after_seconds

    def body(self) -> Json:
        body: Json = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "details": self.details, "code": self.code,
        }  # fmt: skip
        if not self.reason:
            del body["reason"]
        if not self.details:
            del body["details"]
        return body


def _about(kind: Kind, name: str, **more: Any) -> Json:
    details: Json = {"name": name, "group": kind.group, "kind": kind.plural, **more}
    return {field: value for field, value in details.items() if value}


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{kind.group_resource} "{name}" not found', details=_about(kind, name))


def no_such_resource() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{kind.group_resource} "{name}" already exists', details=_about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {kind.group_resource} "{name}": {why}'
    return Refused(409, "Conflict", message, details=_about(kind, name))


def precondition_failed(kind: Kind, name: str, why: str) -> Refused:
    """A deletion names the kind where everything else names the resource."""
    named = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {"name": name, "kind": kind.kind, **({"group": kind.group} if kind.group else {})}
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {named} "{name}": {why}', details=details)


def must_name_revision(kind: Kind, name: str) -> Refused:
    fault = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    details = _about(kind, name, causes=[fault._asdict()])
    message = f'{kind.group_resource} "{name}" is invalid: {fault.field}: {fault.message}'
    return Refused(422, "Invalid", message, details=details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(kind: Kind, name: str) -> Refused:
    return conflict(kind, name, MODIFIED)


def invalid(kind: Kind, name: str, faults: Sequence[Fault]) -> Refused:
    # A fault without a field is about the whole object.
    texts = [f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _about(kind, name, causes=[fault._asdict() for fault in faults])
    details["kind"] = kind.kind
    return Refused(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details=details)


def unreasoned_invalid(message: str) -> Refused:
    """422 without a cause: how a JSON patch that does not fit is refused."""
    return Refused(422, "Invalid", message)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, accepted: Sequence[str]) -> Refused:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return Refused(415, "UnsupportedMediaType", f"{message} (given: {given})")


def forbidden_in(kind: Kind, name: str, why: str, causes: Sequence[Json] = ()) -> Refused:
    details = _about(kind, name, causes=list(causes))
    return Refused(403, "Forbidden", f'{kind.group_resource} "{name}" is forbidden: {why}', details=details)
