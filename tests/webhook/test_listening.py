"""Where the server listens, and what is said when it cannot."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from plimsoll.runtime.health_server import HealthServer
from plimsoll.runtime.listen import CannotListenError
from tests.webhook.test_health import Health


def server(host: str, port: int) -> HealthServer:
    return HealthServer(host, port, Health(), CollectorRegistry())


async def status(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


async def test_a_port_that_is_taken() -> None:
    async with server("127.0.0.1", 0) as first:
        with pytest.raises(CannotListenError) as refusal:
            async with server("127.0.0.1", first.port):
                pass
        assert str(refusal.value).startswith(f"cannot listen on 127.0.0.1:{first.port}: Address already in use; choose")
        assert "web.port (PLIMSOLL_WEB_PORT" in str(refusal.value)
        assert await status(f"http://127.0.0.1:{first.port}/healthz") == 200


async def test_a_port_that_is_taken_on_every_address() -> None:
    async with server("*", 0) as first:
        with pytest.raises(CannotListenError, match=rf"cannot listen on \*:{first.port}: Address already in use"):
            async with server("*", first.port):
                pass


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid", "::ffff:999.1.1.1"])
async def test_an_address_that_is_not_ours(host: str) -> None:
    with pytest.raises(CannotListenError, match=r"set web\.host"):
        async with server(host, 0):
            pass


async def test_every_address_means_both_families() -> None:
    async with server("*", 0) as everywhere:
        assert await status(f"http://127.0.0.1:{everywhere.port}/healthz") == 200
        if _has_ipv6_loopback():
            assert await status(f"http://[::1]:{everywhere.port}/healthz") == 200


async def test_loopback_means_loopback_alone() -> None:
    async with server("127.0.0.1", 0) as here:
        assert await status(f"http://127.0.0.1:{here.port}/healthz") == 200
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(f"http://127.0.0.2:{here.port}/healthz")


async def test_the_port_is_free_again_afterwards() -> None:
    async with server("127.0.0.1", 0) as first:
        port = first.port
        await status(f"http://127.0.0.1:{port}/healthz")
    async with server("127.0.0.1", port) as second:
        assert second.port == port


async def test_a_client_that_stays_connected_does_not_hold_up_the_end() -> None:
    async with aiohttp.ClientSession() as session:
        async with server("127.0.0.1", 0) as first:
            response = await session.get(f"http://127.0.0.1:{first.port}/healthz")
            await response.read()
            reader, writer = await _half_a_request(first.port)
        assert await reader.read() == b""
        writer.close()


async def _half_a_request(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    await writer.drain()
    return reader, writer


def _has_ipv6_loopback() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
