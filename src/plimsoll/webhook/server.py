"""The HTTPS server that the API server asks about new pods."""

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
from plimsoll.webhook.admission_handler import Admissions, AskerLeftError, NotLeadingError
from plimsoll.webhook.http_server import Answer, Later, Question, answering, said

FORWARDED = "Plimsoll-Forwarded"  # set by a replica that asks the leader: the answer must be the leader's own
_FORWARDED = FORWARDED.lower().encode()
_CLOSED_BY_THE_OTHER = getattr(select, "POLLRDHUP", select.POLLHUP)  # only Linux tells before what came earlier is read
# The API server opens a connection for each question of a burst beyond its 25 idle ones, and a ReplicaSet makes up to 500 pods
# at once. What does not fit into the queue is tried again by the kernel after a second, which is half of the API server's
# patience. No more than that: all that waits is accepted in one go, and who is connected already waits meanwhile.
_BACKLOG = 512
_LARGEST_REVIEW = 8 * 1024 * 1024  # etcd refuses objects above 1.5 MB; a review holds one, and some more


def _hung_up(transport: asyncio.Transport) -> bool:
    """Whether the other end has closed the connection, as the API server does when its patience ends.

    The kernel is asked: under load the news waits in a queue behind the very questions that nobody waits for any more.
    """
    if transport.is_closing():
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
        self._stack = AsyncExitStack()
        self.port = port

    async def __aenter__(self) -> Self:
        try:
            self.port = await self._stack.enter_async_context(
                answering(
                    self._answer, self._host, self._wanted_port,
                    tls=self._tls, backlog=_BACKLOG, largest_body=_LARGEST_REVIEW,
                )
            )  # fmt: skip
        except OSError as error:
            raise CannotListenError(
                f"cannot listen on {self._host}:{self._wanted_port}: {reason_of(error)}; choose another address with webhook.host and "
                "webhook.port (0 takes any port that is free)"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _answer(self, question: Question) -> Answer | Later:
        if question.path != PATH or question.method != "POST":
            return said(404, f"expected POST {PATH}")
        try:
            answer = self._admissions.begin(
                question.body,
                forwarded=_FORWARDED in question.headers,
                asker_left=lambda: _hung_up(question.transport),
            )
        except _REFUSALS as error:
            return _refusal(error)
        return Answer(200, answer) if isinstance(answer, bytes) else partial(_wait, answer)


_REFUSALS = (AskerLeftError, NotLeadingError, ValueError)


async def _wait(answer: Callable[[], Awaitable[bytes]]) -> Answer:
    try:
        return Answer(200, await answer())
    except _REFUSALS as error:
        return _refusal(error)


def _refusal(error: Exception) -> Answer:
    match error:
        case AskerLeftError():
            return said(499, "too late")
        case NotLeadingError():
            return said(503, "not the leader")
        case _:
            return said(400, str(error))
