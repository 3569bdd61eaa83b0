"""Typed errors of the client: callers decide by class, people read the message.

A write can fail in three ways: the server refused it (`ApiError`), it never arrived (`Unreachable`), or its result is unknown
(`Ambiguous`). Only the last may have changed the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class KubeError(Exception):
    """Base of all errors of the client."""


class Unreachable(KubeError):
    """Nothing was applied: there was no connection, or the request was never sent. For a read: there was no reply."""


class CredentialsError(Unreachable):
    """Unusable credentials or server address: a kubeconfig, a token file, a plug-in. Nothing was sent."""


class Ambiguous(KubeError):
    """A write was sent and may or may not have been applied: its reply was lost or is inconclusive."""


class MalformedResponse(KubeError):
    """The reply to a read is not JSON, or JSON of an unexpected shape."""


class ApiError(KubeError):
    """An error reply of the API server. The request was not applied."""

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        causes: Sequence[str] = (),
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after  # seconds, from the server
        self.request = request  # description of the request
        super().__init__(status, reason, message)

    def __str__(self) -> str:
        text = f"{self.status} {self.reason}".rstrip()
        if self.request:
            text = f"{self.request}: {text}"
        if self.message:
            text += f": {self.message}"
        more = [cause for cause in self.causes if cause not in self.message]
        return f"{text} ({'; '.join(more)})" if more else text


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""


class AlreadyExists(ApiError):
    """409 on a create: the name is taken."""


class Conflict(ApiError):
    """409 on any other write: the object was replaced or changed."""


class Gone(ApiError):
    """410: the server no longer has the history that a resourceVersion or a continue token refers to."""


class Forbidden(ApiError):
    """403: denied by RBAC, an admission rule or a quota."""


class Unauthorized(ApiError):
    """401, even after the credentials were renewed."""


class Invalid(ApiError):
    """422: the object is invalid; `causes` names the fields."""


class TooManyRequests(ApiError):
    """429: the server sheds load, or (`disruption_budget`) a PodDisruptionBudget currently forbids the eviction."""

    @property
    def disruption_budget(self) -> bool:
        return any(cause.startswith("DisruptionBudget") for cause in self.causes)


class ServerError(ApiError):
    """5xx: a definite refusal, or a failed read. Evicting a pod that two PodDisruptionBudgets match returns 500."""


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""

    def __str__(self) -> str:
        where = self.field or self.reason
        return f"{where}: {self.message}" if where and self.message else where or self.message


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True):
    """The Status object of an error reply."""

    kind: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}

_status_decoder = msgspec.json.Decoder(Status)


def parse_status(body: bytes | memoryview | msgspec.Raw) -> Status | None:
    """The Status in a reply's body, or None if the body is something else, such as a proxy's error page."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def api_error(code: int, body: bytes, *, retry_after: float | None = None, request: str = "") -> ApiError:
    """The error for a reply."""
    status = parse_status(body)
    if status is None:
        shown = excerpt(body)
        message = f"the reply is not a Kubernetes Status (unknown API, or a proxy in between): {shown}"
        return _class_of(code, "")(code, "", message, retry_after=retry_after, request=request)
    return error_of_status(status, code, retry_after=retry_after, request=request)


def excerpt(body: bytes) -> str:
    """The start of an unexpected reply, enough to recognise its sender."""
    return " ".join(body[:2000].decode("utf-8", "replace").split())[:300] or "an empty body"


def error_of_status(status: Status, code: int = 0, *, retry_after: float | None = None, request: str = "") -> ApiError:
    """The error for a Status; a watch sends one inside its stream, with HTTP status 200."""
    code = code or status.code
    details = status.details or _Details()
    if retry_after is None and details.retry_after_seconds:
        retry_after = float(details.retry_after_seconds)
    return _class_of(code, status.reason)(
        code,
        status.reason,
        status.message,
        causes=[str(cause) for cause in details.causes or ()],
        retry_after=retry_after,
        request=request,
    )


def _class_of(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason in ("Gone", "Expired"):
        return Gone
    if code >= 500:
        return ServerError
    return _BY_CODE.get(code, ApiError)
