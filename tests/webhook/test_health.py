"""What the kubelet is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from plimsoll.runtime.health_server import HealthServer


@dataclass
class Health:
    alive_trouble: str | None = None
    ready_trouble: str | None = None

    def not_alive(self) -> str | None:
        return self.alive_trouble

    def not_ready(self) -> str | None:
        return self.ready_trouble

    def stopped_controllers(self) -> list[str]:
        return []


@pytest.fixture
async def web(health: Health) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        HealthServer("127.0.0.1", 0, health, CollectorRegistry()) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        yield session


@pytest.fixture
def health() -> Health:
    return Health()


async def answer(web: aiohttp.ClientSession, path: str, method: str = "GET") -> tuple[int, str]:
    async with web.request(method, path) as response:
        return response.status, await response.text()


async def test_well(web: aiohttp.ClientSession) -> None:
    assert await answer(web, "/healthz") == (200, "ok\n")
    assert await answer(web, "/readyz") == (200, "ok\n")


async def test_a_stale_view_is_alive_but_not_ready_and_says_why(web: aiohttp.ClientSession, health: Health) -> None:
    health.ready_trouble = "nothing was heard of pods for 301 s"
    assert await answer(web, "/readyz") == (503, "nothing was heard of pods for 301 s\n")
    assert await answer(web, "/healthz") == (200, "ok\n")
    health.ready_trouble = None
    assert await answer(web, "/readyz") == (200, "ok\n")


async def test_a_process_that_only_a_restart_can_help_says_why(web: aiohttp.ClientSession, health: Health) -> None:
    health.alive_trouble = "ending: VIEW_TOO_OLD"
    assert await answer(web, "/healthz") == (503, "ending: VIEW_TOO_OLD\n")


async def test_nothing_else_is_served(web: aiohttp.ClientSession) -> None:
    assert (await answer(web, "/"))[0] == 404
    assert (await answer(web, "/healthz/"))[0] == 404
    assert (await answer(web, "/debug/pprof"))[0] == 404
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await answer(web, "/readyz", method))[0] == 405
    assert await answer(web, "/readyz", "HEAD") == (200, "")
