"""Webhooks behind a Service: reached at the address that was given for it, under the Service's own name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from plimsoll.embedded_cluster.api.admission import WebhookCallError
from plimsoll.embedded_cluster.http import webhook_caller
from plimsoll.webhook.certificates import make_certificate, serving_context

_URL = "https://asker.home.svc:443/ask"


@asynccontextmanager
async def serving(name: str) -> AsyncIterator[tuple[str, bytes]]:
    """Its address, and the authority that vouches for its name."""
    authority, certificate, key = make_certificate([name], datetime.now(UTC))

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        return web.json_response({"response": {"uid": review["request"]["uid"], "allowed": request.path == "/ask"}})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving_context(certificate, key)).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}", authority
    finally:
        await runner.cleanup()


async def test_it_is_reached_and_its_certificate_is_that_of_the_service() -> None:
    async with serving("asker.home.svc") as (address, authority):
        ask = webhook_caller({"home/asker": address})
        answer = await ask(_URL, authority, {"request": {"uid": "1"}}, 30)
    assert answer == {"response": {"uid": "1", "allowed": True}}


async def test_another_name_is_not_trusted() -> None:
    async with serving("other.home.svc") as (address, authority):
        ask = webhook_caller({"home/asker": address})
        with pytest.raises(WebhookCallError, match="certificate"):
            await ask(_URL, authority, {"request": {"uid": "1"}}, 30)


async def test_a_service_without_an_address_is_not_found() -> None:
    with pytest.raises(WebhookCallError, match='service "asker" not found'):
        await webhook_caller({})(_URL, b"", {}, 30)
