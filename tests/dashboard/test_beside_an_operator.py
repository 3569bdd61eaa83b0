"""The dashboard of an operator that works: the decisions shown are those acted on, and the work never waits for the window."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from plimsoll.config import Config
from plimsoll.config import Dashboard as DashboardSection
from plimsoll.config.sources import ConfigurationError
from plimsoll.dashboard.service import dashboard_of
from plimsoll.embedded_cluster.clocks import ScaledClock
from plimsoll.simulate.demo.chapters import CHAPTERS
from plimsoll.simulate.demo.player import DemoPlayer
from plimsoll.simulate.demo.scene import CONFIG
from plimsoll.simulate.world import World
from tests.dashboard.scene import merged
from tests.dashboard.streams import events

WEB = "Deployment/shop/web"


def with_dashboard(**settings: object) -> Config:
    return replace(CONFIG, dashboard=DashboardSection(**settings))  # type: ignore[arg-type]


async def test_what_is_shown_is_what_was_done() -> None:
    async with World(with_dashboard(port=0), ScaledClock(20)) as world:
        await DemoPlayer(world, CHAPTERS).prepare()
        process = world.operator_process
        async with dashboard_of(process.operator, world.config, process.client, world.clock, "me") as server:
            assert server is not None
            async with (
                aiohttp.ClientSession(server.url) as session,
                session.get("/api/v1/stream", timeout=aiohttp.ClientTimeout(total=120)) as response,
            ):
                stream = events(response)
                _, _, page = await anext(stream)
                assert page["operator"]["leader"] is True
                await CHAPTERS[0].action(world)
                while not (_is_settled(page) and any(one["result"] == "done" for one in page["decisions"])):
                    page = merged(page, (await anext(stream))[2])
    assert page["workloads"][WEB]["target"] == {"spot": 9, "onDemand": 6}
    assert sum(cell[1] == WEB for node in page["nodes"].values() for cell in node["pods"]) == 15
    done = [one for one in page["decisions"] if one["result"] == "done"]
    assert {one["controller"] for one in done} == {"deletion-cost"}
    assert all(one["action"] == "Patch" and one["why"] for one in done)


def _is_settled(page: dict) -> bool:  # type: ignore[type-arg]
    web = page["workloads"].get(WEB)
    return web is not None and web["current"] == web["target"] == {"spot": 9, "onDemand": 6}


async def test_an_address_that_is_taken_costs_the_window_and_not_the_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with World(with_dashboard(port=port), ScaledClock(20)) as world:
            process = await world.start_operator()
            with capture_logs() as logs:
                async with dashboard_of(process.operator, world.config, process.client, world.clock, "me") as server:
                    assert server is None
                    await world.pass_time(1)  # raises if the operator ended
    (told,) = [one for one in logs if one["log_level"] == "error"]
    assert f"127.0.0.1:{port}" in told["error"]
    assert "dashboard.port" in told["error"]


async def test_switched_off() -> None:
    async with World(with_dashboard(enabled=False), ScaledClock(20)) as world:
        process = await world.start_operator()
        async with dashboard_of(process.operator, world.config, process.client, world.clock, "me") as server:
            assert server is None


async def test_open_to_all_is_refused_before_anything_is_served() -> None:
    async with World(with_dashboard(port=0, host="0.0.0.0"), ScaledClock(20)) as world:
        process = await world.start_operator()
        with pytest.raises(ConfigurationError, match="token"):
            async with dashboard_of(process.operator, world.config, process.client, world.clock, "me"):
                pass
