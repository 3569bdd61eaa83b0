"""A dashboard over a large cluster, in a process of its own: it prints its address, and changes pods for each line it is sent."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.dashboard.population import Population
from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config import Dashboard as DashboardSection
from plimsoll.controllers.build import controllers
from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.gc_tuning import collect_and_freeze, disable_automatic_full_gc


async def run(nodes: int, pods: int) -> None:
    config = Config(controllers=ControllersSection(enabled=("deletion-cost",)), dashboard=DashboardSection(port=0))
    disable_automatic_full_gc()
    population = Population(controllers(config), nodes=nodes, pods=pods)
    async with serve_dashboard(
        population.view, config, RealClock(), LoopbackGate(), cluster="test", identity="benchmark", leading=lambda: True
    ) as (server, _):
        collect_and_freeze()
        print(server.url, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            population.change(int(line))


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
