"""The HTTPS server that the API server asks about new pods."""

from __future__ import annotations

import asyncio
import select
import ssl
from types import TracebackType
from typing import Self

import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from plimsoll.placement.webhook_configuration import PATH
from plimsoll.web.admissions import Admissions, AskerLeftError, NotLeadingError
from plimsoll.web.listening import CannotListenError, listen, port_of, reason_of

log = structlog.get_logger()


FORWARDED = "Plimsoll-Forwarded"  # set by a replica that asks the leader: the answer must be the leader's own
_CLOSED_BY_THE_OTHER = getattr(select, "POLLRDHUP", select.POLLHUP)  # only Linux tells before what came earlier is read
# The API server opens a connection for each question of a burst beyond its 25 idle ones, and a ReplicaSet makes up to 500 pods
# at once. What does not fit into the queue is tried again by the kernel after a second, which is half of the API server's
# patience. No more than that: all that waits is accepted in one go, and who is connected already waits meanwhile.
_BACKLOG = 512
_LARGEST_REVIEW = 8 * 1024 * 1024  # etcd refuses objects above 1.5 MB; a review holds one, and some more


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_REVIEW)


def _hung_up(transport: asyncio.Transport | None) -> bool:
    """Whether the other end has closed the connection, as the API server does when its patience ends.

    The kernel is asked: under load the news waits in a queue behind the very questions that nobody waits for any more.
    """
    if transport is None or transport.is_closing():
        return True
    news = select.poll()
    news.register(transport.get_extra_info("socket").fileno(), _CLOSED_BY_THE_OTHER)
    return bool(news.poll(0))


class WebhookServer:
    """Serves for as long as its `async with` block lasts. `tls` may be given another certificate meanwhile."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, admissions: Admissions) -> None:
        self._host = host
        self._wanted_port = port
        self._tls = tls
        self._admissions = admissions
        # Without a router: there is one path, and 500 questions a second.
        self._runner = web.ServerRunner(
            web.Server(
                self._answer,
                request_factory=_request,
                handler_cancellation=True,
                access_log=None,
                keepalive_timeout=300,
            ),
            shutdown_timeout=1.0,
        )

    @property
    def port(self) -> int:
        return port_of(self._runner)

    async def __aenter__(self) -> Self:
        try:
            await listen(self._runner, self._host, self._wanted_port, tls=self._tls, backlog=_BACKLOG)
        except OSError as error:
            raise CannotListenError(
                f"cannot listen on {self._host}:{self._wanted_port}: {reason_of(error)}; choose another address with webhook.host and "
                "webhook.port (0 takes any port that is free)"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path != PATH or request.method != "POST":
            return web.Response(status=404, text=f"expected POST {PATH}\n")
        try:
            body = await request.read()
        except ConnectionResetError:
            return web.Response(status=499)
        transport = request.transport
        try:
            answer = await self._admissions.review(
                body, forwarded=FORWARDED in request.headers, asker_left=lambda: _hung_up(transport)
            )
        except AskerLeftError:
            return web.Response(status=499)
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        except NotLeadingError:
            return web.Response(status=503, text="not the leader\n")
        return web.Response(body=answer, content_type="application/json")
