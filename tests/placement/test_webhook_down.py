"""Whatever is wrong with the webhook, pods start: it is gone, it is slow, its certificate has ended."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from plimsoll.controllers.placement.webhook_configuration import url_configuration, webhooks
from plimsoll.kube.client.client import Client
from plimsoll.webhook.certificates import VALID_FOR, make_certificate, serving_context
from plimsoll.webhook.registration import WEBHOOK_CONFIGURATIONS
from tests.eventually import eventually
from tests.placement.webhook_cluster import deploy, only, pods_of, split
from tools.controlplane.cluster import ControlPlane


@asynccontextmanager
async def nothing(_: ssl.SSLContext) -> AsyncIterator[int]:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    yield port


@asynccontextmanager
async def silence(tls: ssl.SSLContext) -> AsyncIterator[int]:
    async def hang(_: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    runner = web.ServerRunner(web.Server(hang), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("server", "made"),
    [
        (nothing, datetime.now(UTC)),
        (silence, datetime.now(UTC)),
        (silence, datetime.now(UTC) - VALID_FOR - timedelta(days=1)),
    ],
    ids=["down", "slow", "certificate expired"],
)
async def test_pods_start_all_the_same(control_plane: ControlPlane, client: Client, namespace: str, server, made):
    authority, certificate, key = make_certificate(["127.0.0.1"], made)
    async with server(serving_context(certificate, key)) as port:
        where = {"url": f"https://127.0.0.1:{port}/mutate", "caBundle": base64.b64encode(authority).decode()}
        hooks = webhooks(where, operator_namespace="home", timeout_seconds=2, namespace_labels=only(namespace))
        body = {"metadata": {"name": url_configuration("home")}, "webhooks": hooks}
        configured = await client.create(WEBHOOK_CONFIGURATIONS, "", body)
        try:
            await deploy(client, namespace, "web", 3, "70%")

            async def created() -> bool:
                return len(await pods_of(client, namespace, "web")) == 3

            await eventually(created, "three pods")
            assert split(await pods_of(client, namespace, "web")) == {"unmarked": 3}
        finally:
            await client.delete(WEBHOOK_CONFIGURATIONS, "", url_configuration("home"), uid=configured.uid)
