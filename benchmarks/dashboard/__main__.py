"""`python -m benchmarks.dashboard`: 5,000 nodes and 50,000 pods at a glance, and what 100 pods that change cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.dashboard.population import Population
from benchmarks.informer.ours import Ticker
from benchmarks.report import Figure, Report, progress
from plimsoll.config import Config
from plimsoll.config import Controllers as ControllersSection
from plimsoll.config import Dashboard as DashboardSection
from plimsoll.controllers.build import controllers, placement_settings
from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot, OperatorInfo
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.gc_tuning import collect_and_freeze, disable_automatic_full_gc
from plimsoll.runtime.logging import set_up_logging

_CHANGES = 12
_PODS_A_CHANGE = 100
_PATIENCE_SECONDS = 60.0


@dataclass
class Run:
    first_seconds: float = 0.0
    first_cpu_seconds: float = 0.0
    second_seconds: float = 0.0  # somebody else, while the first looks on
    bytes: int = 0
    wire: int = 0
    stall: dict[str, float] = field(default_factory=dict)
    change_seconds: list[float] = field(default_factory=list)  # from the change to its being there
    change_cpu_seconds: list[float] = field(default_factory=list)
    change_bytes: int = 0
    change_stall: dict[str, float] = field(default_factory=dict)
    unwatched_seconds: float = 0.0  # what a change costs the operator while nobody looks


async def measure(nodes: int, pods: int) -> Run:
    set_up_logging("warning", "console")
    disable_automatic_full_gc()
    # Decisions are somebody else's work, and have a benchmark of their own.
    config = Config(controllers=ControllersSection(enabled=("deletion-cost",)), dashboard=DashboardSection(port=0))
    progress(f"a cluster of {nodes} nodes and {pods} pods")
    population = Population(controllers(config), nodes=nodes, pods=pods)
    collect_and_freeze()
    run = Run()
    async with serve_dashboard(
        population.view, config, RealClock(), LoopbackGate(), cluster="test", identity="benchmark", leading=lambda: True
    ) as (server, _):
        await asyncio.sleep(1)
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        progress("the first who looks")
        async with client(server.url) as first:
            began = time.process_time()
            told = await event(first)
            run.first_cpu_seconds = time.process_time() - began
            run.first_seconds = told["at"] - told["started"]
            run.bytes, run.wire = told["bytes"], told["wire"]
            run.stall = ticker.figures()
            async with client(server.url) as second:
                told = await event(second)
                run.second_seconds = told["at"] - told["started"]
            progress(f"{_CHANGES} times {_PODS_A_CHANGE} pods")
            ticker.reset()
            for _ in range(_CHANGES):
                changed = time.monotonic()
                population.change(_PODS_A_CHANGE)
                told = await event(first)
                run.change_seconds.append(told["at"] - changed)
                run.change_bytes = max(run.change_bytes, told["wire"])
            run.change_stall = ticker.figures()
        ticking.cancel()
    run.change_cpu_seconds, run.unwatched_seconds = await alone(population, config)
    return run


async def alone(population: Population, config: Config) -> tuple[list[float], float]:
    """What changes cost the process, by its CPU clock: to renew the picture, and merely to mark what is to be renewed."""
    shown = OperatorInfo("benchmark", "benchmark", False, (), lambda: True)
    snapshot = DashboardSnapshot(population.view, placement_settings(config).rules, RealClock(), shown)
    await snapshot.renew()
    spent = []
    for _ in range(_CHANGES):
        population.change(_PODS_A_CHANGE)
        began = time.process_time()
        await snapshot.renew()
        spent.append(time.process_time() - began)
    some = [pod for pod, _ in zip(population.view[PODS], range(_PODS_A_CHANGE), strict=False)]
    began = time.process_time()
    for _ in range(100):
        for pod in some:
            snapshot.changed(PODS, pod, pod)
    return spent, (time.process_time() - began) / (100 * len(some))


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Process]:
    command = (sys.executable, "-m", "benchmarks.dashboard.client", url)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, limit=1 << 20)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def event(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(_PATIENCE_SECONDS):
        told: dict[str, Any] = json.loads(await process.stdout.readline())
    return told


def make_report(run: Run, nodes: int, pods: int) -> Report:
    worst = max(run.stall["busy_stall_seconds"], run.change_stall["busy_stall_seconds"])
    figures = (
        Figure("the first whole picture is there", "s", run.first_seconds, at_most=2.0),
        Figure("the first whole picture: CPU", "s", run.first_cpu_seconds, at_most=1.0),
        Figure("the next one", "s", run.second_seconds, at_most=2.0),
        Figure("whole picture", "MB", run.bytes / 1e6),
        Figure("whole picture, on the wire", "MB", run.wire / 1e6),
        Figure(f"{_PODS_A_CHANGE} pods change: CPU", "ms", 1000 * min(run.change_cpu_seconds), at_most=50.0),
        Figure(f"{_PODS_A_CHANGE} pods change: on the wire", "kB", run.change_bytes / 1e3),
        Figure(f"{_PODS_A_CHANGE} pods change: until they are shown", "s", min(run.change_seconds)),
        Figure(
            "longest stall of the loop", "ms", 1000 * max(run.stall["stall_seconds"], run.change_stall["stall_seconds"])
        ),
        Figure("longest computing without a turn", "ms", 1000 * worst, at_most=50.0),
        Figure("a pod changes while nobody looks", "µs", 1e6 * run.unwatched_seconds, at_most=20.0),
    )
    work = f"{nodes} nodes and {pods} pods shown to a browser's stand-in"
    return Report("dashboard", work, figures, facts={"nodes": nodes, "pods": pods})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    report = make_report(asyncio.run(measure(options.nodes, options.pods)), options.nodes, options.pods)
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
