"""Forwards admission reviews from a follower to the leader, whose address is an annotation of the Lease."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Self

import aiohttp
import structlog

from plimsoll.controllers.placement.webhook_configuration import PATH
from plimsoll.webhook.server import FORWARDED

log = structlog.get_logger()

ADDRESS = "plimsoll.dev/webhook-address"  # the Lease's annotation: host:port of the leader's own server


class LeaderForwarder:
    """Use as `async with`. It does not retry: the follower's own decision is faster."""

    def __init__(
        self,
        leader_address: Callable[[], str],
        *,
        authorities: Callable[[], bytes],
        server_name: str,
        identity: str,
        seconds: float,
        counted: Callable[[str], None] = lambda _result: None,
    ) -> None:
        self._leader_address = leader_address
        self._authorities = authorities
        self._server_name = server_name  # in the certificate, which does not name the pod's address
        self._identity = identity
        self._timeout = aiohttp.ClientTimeout(total=seconds)
        self._counted = counted
        self._session: aiohttp.ClientSession | None = None
        self._trusted: tuple[bytes, ssl.SSLContext] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, body: bytes) -> bytes | None:
        address = self._leader_address()
        if not address or self._session is None:
            self._counted("no-leader")
            return None
        headers = {"Content-Type": "application/json", FORWARDED: self._identity}
        try:
            async with self._session.post(
                f"https://{address}{PATH}", data=body, headers=headers, ssl=self._tls(),
                server_hostname=self._server_name,
            ) as response:  # fmt: skip
                answer = await response.read()
                if response.status == 200:
                    self._counted("answered")
                    return answer
                why = f"status {response.status}"
        except (TimeoutError, aiohttp.ClientError, ssl.SSLError, OSError) as error:
            why = str(error) or type(error).__name__
        self._counted("failed")
        log.warning("cannot forward an admission review to the leader", address=address, why=why)
        return None

    def _tls(self) -> ssl.SSLContext:
        authorities = self._authorities()
        if self._trusted is None or self._trusted[0] != authorities:
            text = authorities.decode("ascii", "replace") if authorities else None
            self._trusted = authorities, ssl.create_default_context(cadata=text)
        return self._trusted[1]
