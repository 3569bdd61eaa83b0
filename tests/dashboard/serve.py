"""`python -m tests.dashboard.serve story | large`: a dashboard to look at, over data that keeps changing.

`story` is an embedded cluster in which the operator works; `large` has 5,000 nodes and 50,000 pods, and nobody acts.
"""

from __future__ import annotations

import argparse
import asyncio
from random import Random

import click
from msgspec.structs import replace

from benchmarks.dashboard.population import Population
from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config import Dashboard as DashboardSection
from plimsoll.controllers.build import controllers
from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.service import dashboard_of, serve_dashboard
from plimsoll.embedded_cluster.clocks import ScaledClock
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.changes import apply_change, parse_event, parse_set
from plimsoll.simulate.demo.chapters import CHAPTERS
from plimsoll.simulate.demo.player import DemoPlayer
from plimsoll.simulate.demo.scene import CONFIG, NAMESPACE
from plimsoll.simulate.world import World

_SPEED = 10.0


async def story(port: int) -> None:
    config = replace(CONFIG, dashboard=DashboardSection(port=port))
    rng = Random(1)
    async with World(config, ScaledClock(_SPEED)) as world:
        telling = DemoPlayer(world, CHAPTERS, pause_seconds=10)
        await telling.prepare()
        process = world.operator_process
        async with dashboard_of(process.operator, world.config, process.client, world.clock, "story") as server:
            assert server is not None
            click.echo(server.url)
            await telling.play()
            while True:
                size = rng.choice((5, 15, 25, 60))
                percent = rng.choice((20, 40, 60, 80))
                for text in (
                    f"deployment/{NAMESPACE}/web:replicas={size}@0s",
                    f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage={percent}%@0s",
                ):
                    await apply_change(parse_set(text), world.cluster)
                await apply_change(parse_event(f"nodes:1 zone={rng.choice('abc')} class=spot cpu=4@0s"), world.cluster)
                await world.pass_time(120)


async def large(port: int, nodes: int, pods: int, changes: int) -> None:
    running = ControllersSection(enabled=("placement", "deletion-cost", "nodegroups"))
    config = Config(controllers=running, dashboard=DashboardSection(port=port))
    population = Population(controllers(config), nodes=nodes, pods=pods)
    async with serve_dashboard(
        population.view, config, RealClock(), LoopbackGate(), cluster="test", identity="large", leading=lambda: False
    ) as (
        server,
        _,
    ):
        click.echo(server.url)
        while True:
            await asyncio.sleep(1)
            population.change(changes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.dashboard.serve", description=__doc__)
    parser.add_argument("what", choices=("story", "large"))
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--changes", type=int, default=100, help="pods that change in a second")
    options = parser.parse_args()
    set_up_logging("warning", "console")
    if options.what == "story":
        asyncio.run(story(options.port))
    else:
        asyncio.run(large(options.port, options.nodes, options.pods, options.changes))


if __name__ == "__main__":
    main()
