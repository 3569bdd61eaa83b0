"""`python -m benchmarks.allocation`: A1, the time and the API calls until 100 containers on one node have drives and ports;
one alone; and 1,000 on 50 nodes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.allocation.cluster import (
    Watcher,
    announce_drives,
    connected,
    install,
    make_containers,
    make_node,
)
from benchmarks.operator_process import Operator, operator
from benchmarks.report import Figure, Report, progress
from plimsoll.kube.client.client import Client
from plimsoll.runtime.logging import set_up_logging
from tools.controlplane.cluster import ControlPlane

# As the specification has it: each waits two to five seconds for the one before it; not measured here.
_PEER = "one after the other, 2-5 s each (quoted)"
_PEER_SECONDS_EACH = 2.0
EACH = 20  # containers on each of many nodes
_IDLE_SECONDS = 3.0  # how long nothing must be asked before or after


@dataclass(frozen=True)
class Run:
    containers: int
    seconds: float
    calls: int
    cpu_seconds: float

    @property
    def calls_each(self) -> float:
        return self.calls / self.containers


class Measured:
    """A cluster whose operator is idle between two measurements."""

    def __init__(self, client: Client, watcher: Watcher, running: Operator) -> None:
        self._client, self._watcher, self._running = client, watcher, running

    def _calls(self) -> int:
        """Everything that is asked about leases, containers and nodes; watches and events are not."""
        kinds = ("leases", "wekacontainers", "wekacontainers/status", "nodes")
        asked = sum(self._running.counter("plimsoll_api_requests_total", resource=kind) for kind in kinds)
        watched = sum(
            self._running.counter("plimsoll_api_requests_total", resource=kind, verb="watch") for kind in kinds
        )
        return asked - watched

    async def _quiet(self) -> int:
        """The number of calls once it no longer grows."""
        calls = -1
        while calls != (now := await asyncio.to_thread(self._calls)):
            calls = now
            await asyncio.sleep(_IDLE_SECONDS)
        return calls

    async def until_served(self, names: Sequence[str], begin: Callable[[], Awaitable[object]]) -> Run:
        before, cpu = await self._quiet(), self._running.cpu_seconds
        started = time.monotonic()
        await begin()
        await self._watcher.all_served(names)
        seconds = time.monotonic() - started
        after = await self._quiet()
        run = Run(len(names), seconds, after - before, self._running.cpu_seconds - cpu)
        progress(f"{run.containers} containers in {seconds:.2f} s, {run.calls_each:.2f} calls each")
        return run

    async def alone(self, node: str) -> Run:
        """One container comes to a node that has drives and nobody else."""
        await make_node(self._client, node)
        await announce_drives(self._client, node, 1)
        return await self.until_served([f"{node}-container-0"], lambda: make_containers(self._client, node, 1))

    async def crowd(self, nodes: Sequence[str], each: int) -> Run:
        """Containers wait on nodes without drives; then the drives of all nodes are announced."""
        names: list[str] = []
        for node in nodes:
            await make_node(self._client, node)
            names += await make_containers(self._client, node, each)

        async def announce() -> None:
            await asyncio.gather(*(announce_drives(self._client, node, each) for node in nodes))

        return await self.until_served(names, announce)


async def measure(
    kubeconfig: Path, running: Operator, runs: int, nodes: int
) -> tuple[list[Run], list[Run], Run | None]:
    async with connected(kubeconfig) as client:
        watcher = Watcher(client)
        following = asyncio.create_task(watcher.follow())
        measured = Measured(client, watcher, running)
        alone = [await measured.alone(f"alone-{number}") for number in range(runs)]
        hundred = [await measured.crowd([f"crowd-{number}"], 100) for number in range(runs)]
        many = None
        if nodes:
            many = await measured.crowd([f"many-{number}" for number in range(nodes)], EACH)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        if twice := watcher.given_twice():
            raise SystemExit(f"given twice: {', '.join(twice)}")
        return alone, hundred, many


def make_report(alone: Sequence[Run], hundred: Sequence[Run], many: Run | None) -> Report:
    one = min(alone, key=lambda run: run.seconds)
    best = min(hundred, key=lambda run: run.seconds)
    figures = [
        Figure("time, a container alone", "s", one.seconds),
        Figure("API calls, a container alone", "", max(run.calls for run in alone), at_most=7),
        Figure("time, 100 containers on one node", "s", best.seconds, 100 * _PEER_SECONDS_EACH, at_most=5),
        Figure("API calls each, 100 on one node", "", max(run.calls_each for run in hundred), at_most=2.5),
        Figure("CPU, 100 on one node", "s", best.cpu_seconds),
    ]
    if many is not None:
        size = f"{many.containers:,} on {many.containers // EACH} nodes"
        figures += [
            Figure(f"time, {size}", "s", many.seconds),
            Figure(f"API calls each, {size}", "", many.calls_each, at_most=2.5),
            Figure(f"CPU, {size}", "s", many.cpu_seconds),
        ]
    facts: Mapping[str, object] = {
        "each wants": "1 drive, 100 ports in a row, 1 port for its agent",
        "runs": f"{len(alone)} and {len(hundred)}: the fastest counts, and the most calls",
        "seconds": " ".join(f"{run.seconds:.2f}" for run in hundred),
        "limits": "the defaults of the configuration, nobody to be elected against",
    }
    work = "give drives and ports to containers that wait, from the moment at which there are drives"
    return Report("allocation", work, figures, peer=_PEER, facts=facts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allocation", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured")
    parser.add_argument("--nodes", type=int, default=50, help=f"of {EACH} containers each; 0 leaves it out")
    options = parser.parse_args()
    set_up_logging("warning", "console")
    parts = {"scheduler": False, "controller-manager": False, "kwok": False}
    with ControlPlane.start(components=parts) as cluster, tempfile.TemporaryDirectory() as directory:
        install(cluster)
        log = Path(directory) / "operator.log"
        with operator(cluster.kubeconfig, log, "allocation", elected=False) as running:
            alone, hundred, many = asyncio.run(measure(cluster.kubeconfig, running, options.runs, options.nodes))
    report = make_report(alone, hundred, many)
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
