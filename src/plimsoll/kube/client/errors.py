"""What can go wrong between us and the API server, as types: a caller decides by class, a person reads the message.

Three answers matter to whoever writes: it was refused (`ApiError`), it never got there (`Unreachable`), or nobody knows
(`Ambiguous`). Only the last may have changed the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class KubeError(Exception):
    """Anything that the API server, or the way to it, did not do as asked."""


class Unreachable(KubeError):
    """Nothing was applied: there was no connection, it was refused, or the request was never sent.

    For a read it also stands for a reply that never came, because a read has nothing to apply.
    """


class CredentialsError(Unreachable):
    """We cannot say who we are, or where the server is: a kubeconfig, a token file, a plug-in. Nothing was sent."""


class Ambiguous(KubeError):
    """A write may or may not have been applied: it was sent, and its answer is lost or says nothing certain."""


class Garbled(KubeError):
    """A reply to a read that is not what the API promises: not JSON, or JSON of another shape."""


class ApiError(KubeError):
    """The API server's own answer. The request was not applied."""

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
        self.retry_after = retry_after  # seconds, as the server asked
        self.request = request  # what we asked for, as a person would say it
        super().__init__(status, reason, message)

    def __str__(self) -> str:
        text = f"{self.status} {self.reason}".rstrip()
        if self.request:
            text = f"{self.request}: {text}"
        if self.message:
            text += f": {self.message}"
        untold = [cause for cause in self.causes if cause not in self.message]
        return f"{text} ({'; '.join(untold)})" if untold else text


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""


class AlreadyExists(ApiError):
    """409 on a create: the name is taken."""


class Conflict(ApiError):
    """409 on anything else: the object is no longer the one, or no longer in the state, that we meant to change."""


class Gone(ApiError):
    """410: the server no longer keeps the history that a resourceVersion or a continue token points to."""


class Forbidden(ApiError):
    """403: RBAC, an admission rule or a quota says no."""


class Unauthorized(ApiError):
    """401, also after the credentials were renewed."""


class Invalid(ApiError):
    """422: the object breaks a rule of its kind; `causes` names each field."""


class TooManyRequests(ApiError):
    """429: the server sheds load, or (`disruption_budget`) a PodDisruptionBudget forbids the eviction for now."""

    @property
    def disruption_budget(self) -> bool:
        return any(cause.startswith("DisruptionBudget") for cause in self.causes)


class ServerError(ApiError):
    """5xx: a definite no, or any failed read. Evicting a pod that two PodDisruptionBudgets match answers 500."""


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
    """The object with which the API server explains itself."""

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
    """The Status in a reply's body, or None where the body is something else (a proxy's page, say)."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def api_error(code: int, body: bytes, *, retry_after: float | None = None, request: str = "") -> ApiError:
    """The error that a reply stands for."""
    status = parse_status(body)
    if status is None:
        shown = excerpt(body)
        message = f"the reply is no Kubernetes Status (no such API, or a proxy in between): {shown}"
        return _class_of(code, "")(code, "", message, retry_after=retry_after, request=request)
    return error_of_status(status, code, retry_after=retry_after, request=request)


def excerpt(body: bytes) -> str:
    """Enough of a strange reply to recognise who sent it."""
    return " ".join(body[:2000].decode("utf-8", "replace").split())[:300] or "an empty body"


def error_of_status(status: Status, code: int = 0, *, retry_after: float | None = None, request: str = "") -> ApiError:
    """The error that a Status stands for; a watch sends one inside its stream, under the HTTP code 200."""
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
