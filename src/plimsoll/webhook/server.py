"""The HTTPS server that receives AdmissionReviews of new pods from the API server."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

from plimsoll.controllers.placement.webhook_configuration import PATH
from plimsoll.runtime.listen import CannotListenError, reason_of
from plimsoll.webhook.admission_handler import AdmissionHandler, ClientGoneError, NotLeadingError
from plimsoll.webhook.http_server import Deferred, HttpRequest, HttpResponse, serve_http, text_response

FORWARDED = "Plimsoll-Forwarded"  # set by a follower that forwards a review: only the leader may answer it
_FORWARDED = FORWARDED.lower().encode()
_CLOSED_BY_PEER = getattr(select, "POLLRDHUP", select.POLLHUP)  # only Linux reports it before earlier data is read
# The API server opens a connection for each review of a burst beyond its 25 idle ones, and a ReplicaSet creates up to 500 pods at
# once. The kernel retries a connection that does not fit into the queue after a second, which is half of the API server's
# time-out. The queue is not longer because all of it is accepted at once while established connections wait.
_BACKLOG = 512
MAX_REVIEW_BYTES = 8 * 1024 * 1024  # etcd refuses objects above 1.5 MB; a review holds one, and some more


def _hung_up(transport: asyncio.Transport) -> bool:
    """Whether the peer has closed the connection, as the API server does after its time-out.

    It asks the kernel: under load, asyncio reports the end of a connection only after the requests queued before it.
    """
    if transport.is_closing():
        return True
    news = select.poll()
    news.register(transport.get_extra_info("socket").fileno(), _CLOSED_BY_PEER)
    return bool(news.poll(0))


class WebhookServer:
    """Use as `async with`: serves while the block runs. The certificate in `tls` may be replaced meanwhile."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, admissions: AdmissionHandler) -> None:
        self._host = host
        self._wanted_port = port
        self._tls = tls
        self._admissions = admissions
        self._stack = AsyncExitStack()
        self.port = port

    async def __aenter__(self) -> Self:
        try:
            self.port = await self._stack.enter_async_context(
                serve_http(
                    self._handle, self._host, self._wanted_port,
                    tls=self._tls, backlog=_BACKLOG, largest_body=MAX_REVIEW_BYTES,
                )
            )  # fmt: skip
        except OSError as error:
            raise CannotListenError(
                f"cannot listen on {self._host}:{self._wanted_port}: {reason_of(error)}; choose another address with webhook.host and "
                "webhook.port (0 takes any free port)"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _handle(self, request: HttpRequest) -> HttpResponse | Deferred:
        if request.path != PATH or request.method != "POST":
            return text_response(404, f"expected POST {PATH}")
        try:
            answer = self._admissions.begin(
                request.body,
                forwarded=_FORWARDED in request.headers,
                client_gone=lambda: _hung_up(request.transport),
            )
        except _REFUSALS as error:
            return _refusal(error)
        return HttpResponse(200, answer) if isinstance(answer, bytes) else partial(_wait, answer)


_REFUSALS = (ClientGoneError, NotLeadingError, ValueError)


async def _wait(answer: Callable[[], Awaitable[bytes]]) -> HttpResponse:
    try:
        return HttpResponse(200, await answer())
    except _REFUSALS as error:
        return _refusal(error)


def _refusal(error: Exception) -> HttpResponse:
    match error:
        case ClientGoneError():
            return text_response(499, "too late")
        case NotLeadingError():
            return text_response(503, "not the leader")
        case _:
            return text_response(400, str(error))
