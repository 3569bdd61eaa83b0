"""A follower asks the leader at the address on its Lease, and does without an answer that does not come in time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from plimsoll.webhook.certificates import make_certificate, serving_context
from plimsoll.webhook.forwarding import LeaderForwarder
from plimsoll.webhook.server import FORWARDED

NAME = "plimsoll-webhook.home.svc"
AUTHORITY, CERTIFICATE, KEY = make_certificate([NAME], datetime.now(UTC))
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def leader(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls or serving_context(CERTIFICATE, KEY)).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(address: str, *, seconds: float = 30.0, authorities: bytes = AUTHORITY) -> tuple[bytes | None, list[str]]:
    results: list[str] = []
    async with LeaderForwarder(
        lambda: address, authorities=lambda: authorities, server_name=NAME, identity="two", seconds=seconds,
        counted=results.append,
    ) as forwarding:  # fmt: skip
        return await forwarding.ask(b"question"), results


async def echo(request: web.BaseRequest) -> web.Response:
    return web.Response(body=f"{request.headers[FORWARDED]}: {await request.text()}".encode())


async def test_the_answer_comes_back_as_it_is():
    async with leader(echo) as address:
        assert await ask(address) == (b"two: question", ["answered"])


async def test_nobody_leads():
    assert await ask("") == (None, ["no-leader"])


async def test_a_leader_that_is_gone():
    async with leader(echo) as address:
        pass
    assert await ask(address) == (None, ["failed"])


async def test_a_leader_that_leads_no_more():
    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.Response(status=503)

    async with leader(refuse) as address:
        assert await ask(address) == (None, ["failed"])


async def test_a_leader_that_does_not_answer_in_time():
    asked = asyncio.Event()

    async def hang(_: web.BaseRequest) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with leader(hang) as address:
        assert await ask(address, seconds=0.2) == (None, ["failed"])


async def test_someone_else_at_the_leaders_address_learns_nothing():
    asked: list[str] = []

    async def listen(request: web.BaseRequest) -> web.Response:
        asked.append(await request.text())
        return web.Response(body=b"{}")

    _, certificate, key = make_certificate([NAME], datetime.now(UTC))
    async with leader(listen, serving_context(certificate, key)) as address:
        assert await ask(address) == (None, ["failed"])
    assert asked == []
