"""API errors with the codes, reasons, causes and messages of kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind


class FieldError(NamedTuple):
    """A validation error of one field."""

    reason: str  # FieldValueInvalid, FieldValueRequired, …
    message: str
    field: str


def invalid_value(field: str, value: Any, why: str) -> FieldError:
    return FieldError("FieldValueInvalid", f"Invalid value: {_shown(value)}: {why}", field)


def required(field: str, why: str = "") -> FieldError:
    return FieldError("FieldValueRequired", "Required value" + (f": {why}" if why else ""), field)


def forbidden(field: str, why: str) -> FieldError:
    return FieldError("FieldValueForbidden", f"Forbidden: {why}", field)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> FieldError:
    listed = ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in allowed)
    return FieldError(
        "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}", field
    )


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ",".join(f'"{k}":{_shown(v)}' for k, v in sorted(value.items())) + "}"
    return "null" if value is None else str(value)


class StatusError(Exception):
    """An error response of the API server."""

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


def _about(kind: ResourceKind, name: str, **more: Any) -> Json:
    details: Json = {"name": name, "group": kind.group, "kind": kind.plural, **more}
    return {field: value for field, value in details.items() if value}


def not_found(kind: ResourceKind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.group_resource} "{name}" not found', details=_about(kind, name))


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: ResourceKind, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{kind.group_resource} "{name}" already exists', details=_about(kind, name)
    )


def conflict(kind: ResourceKind, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.group_resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_about(kind, name))


def precondition_failed(kind: ResourceKind, name: str, why: str) -> StatusError:
    """409 of a deletion, which names the kind where other errors name the resource."""
    named = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {"name": name, "kind": kind.kind, **({"group": kind.group} if kind.group else {})}
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {named} "{name}": {why}', details=details)


def must_name_revision(kind: ResourceKind, name: str) -> StatusError:
    fault = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    details = _about(kind, name, causes=[fault._asdict()])
    message = f'{kind.group_resource} "{name}" is invalid: {fault.field}: {fault.message}'
    return StatusError(422, "Invalid", message, details=details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(kind: ResourceKind, name: str) -> StatusError:
    return conflict(kind, name, MODIFIED)


def invalid_object(kind: ResourceKind, name: str, faults: Sequence[FieldError]) -> StatusError:
    # An error without a field concerns the whole object.
    texts = [f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _about(kind, name, causes=[fault._asdict() for fault in faults])
    details["kind"] = kind.kind
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details=details)


def unreasoned_invalid(message: str) -> StatusError:
    """422 without causes, as for a JSON patch that does not apply."""
    return StatusError(422, "Invalid", message)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, accepted: Sequence[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", f"{message} (given: {given})")


def forbidden_in(kind: ResourceKind, name: str, why: str, causes: Sequence[Json] = ()) -> StatusError:
    details = _about(kind, name, causes=list(causes))
    return StatusError(403, "Forbidden", f'{kind.group_resource} "{name}" is forbidden: {why}', details=details)
