"""A dashboard that is really served, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.server import DashboardServer
from plimsoll.dashboard.service import serve_dashboard
from tests.dashboard.scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
async def served(scene: Scene) -> AsyncIterator[DashboardServer]:
    async with serve_dashboard(
        scene.view,
        scene.config,
        scene.clock,
        LoopbackGate(),
        cluster="staging",
        identity="me",
        leading=lambda: scene.leading,
    ) as (server, _):
        yield server


@pytest.fixture
async def web(served: DashboardServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{served.port}") as session:
        yield session
