"""`python -m benchmarks.deletion_cost`: D1, the time to give 1,000 ready pods in 3 zones their values; and 10,000."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.deletion_cost.cluster import Watcher, connected, deploy, node_lines, switch, write_bare
from benchmarks.operator_process import Operator, operator
from benchmarks.report import Figure, Report, progress
from plimsoll.kube.client import Client
from tools.controlplane.cluster import ControlPlane

_IDLE_SECONDS = 5.0  # how long nothing must be written once every pod has its value
# As it was measured for the specification's reference controller, on a machine like this one; not measured here.
_PEER = "pod-deletion-cost-controller (quoted)"
_PEER_SECONDS, _PEER_CPU_SECONDS, _PEER_MEGABYTES = 15.4, 11.0, 80.0


@dataclass(frozen=True)
class Run:
    """Figures of one switch-on."""

    pods: int
    seconds: float
    cpu_seconds: float
    megabytes: float
    writes: int
    late: int  # writes after every pod had its value
    bare_seconds: float  # what the same number of writes took right before, by a client that does nothing else


async def measure(kubeconfig: Path, running: Operator, pods: int, runs: int) -> list[Run]:
    async with connected(kubeconfig) as client:
        watcher = Watcher(client)
        measuring = asyncio.create_task(_measure(client, watcher, running, pods, runs))
        following = asyncio.create_task(watcher.follow())
        await asyncio.wait((measuring, following), return_when=asyncio.FIRST_COMPLETED)
        if not measuring.done():
            measuring.cancel()
            following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return measuring.result()


async def _measure(client: Client, watcher: Watcher, running: Operator, pods: int, runs: int) -> list[Run]:
    figures = []
    await watcher.until(lambda: len(watcher.values) == pods, "the pods are listed")
    for number in range(1, runs + 1):
        progress(f"{pods} pods, {number} of {runs}")
        bare_seconds = await write_bare(client, stamp=str(number))
        await asyncio.sleep(_IDLE_SECONDS)
        before, cpu_before = running.writes, running.cpu_seconds
        started = time.monotonic()
        await switch(client, on=True)
        await watcher.until(lambda: watcher.covered == pods, "every pod has a value")
        seconds, cpu_seconds = time.monotonic() - started, running.cpu_seconds - cpu_before
        written = running.writes - before
        progress(
            f"{seconds:.2f} s for {written} writes, {cpu_seconds:.2f} s of CPU; bare writes took {bare_seconds:.2f} s"
        )
        await asyncio.sleep(_IDLE_SECONDS)
        late = running.writes - before - written
        figures.append(Run(pods, seconds, cpu_seconds, running.resident_megabytes, written, late, bare_seconds))
        await switch(client, on=False)
        await watcher.until(lambda: watcher.covered == 0, "no pod has a value")
        await asyncio.sleep(1)
    return figures


def run_size(pods: int, runs: int) -> list[Run]:
    with ControlPlane.start(nodes=node_lines(pods)) as cluster, tempfile.TemporaryDirectory() as directory:
        progress(f"creating {pods} pods")

        async def create() -> None:
            async with connected(cluster.kubeconfig) as client:
                await deploy(client, pods)

        asyncio.run(create())
        with operator(cluster.kubeconfig, Path(directory) / "operator.log", "deletion-cost") as running:
            return asyncio.run(measure(cluster.kubeconfig, running, pods, runs))


def make_report(small: Sequence[Run], large: Sequence[Run]) -> Report:
    best = min(small, key=lambda run: run.seconds)
    figures = [*_figures(small, at_most_seconds=3.0, peer=True)]
    if large:
        larger = min(large, key=lambda run: run.seconds)
        growth = (larger.seconds / larger.pods) / (best.seconds / best.pods)
        figures += [*_figures(large), Figure("time a pod, as a multiple", "×", growth, at_most=1.3)]
    facts: Mapping[str, object] = {
        "zones": 3,
        "runs": f"{len(small)} and {len(large)}, the fastest counts",
        "seconds": " ".join(f"{run.seconds:.2f}" for run in (*small, *large)),
        "bare writes": " ".join(f"{run.bare_seconds:.2f}" for run in (*small, *large)),
        "limits": "the defaults of the configuration",
    }
    work = "give the ready pods of a Deployment their values, from the switch to the last pod"
    return Report("deletion_cost", work, figures, peer=_PEER, facts=facts)


def _figures(runs: Sequence[Run], *, at_most_seconds: float | None = None, peer: bool = False) -> Iterator[Figure]:
    best = min(runs, key=lambda run: run.seconds)
    size = f"{best.pods:,} pods"
    yield Figure(f"time, {size}", "s", best.seconds, _PEER_SECONDS if peer else None, at_most=at_most_seconds)
    yield Figure(f"time beside bare writes, {size}", "×", _overhead(runs))
    yield Figure(f"CPU, {size}", "s", best.cpu_seconds, _PEER_CPU_SECONDS if peer else None)
    yield Figure(f"memory, {size}", "MB", best.megabytes, _PEER_MEGABYTES if peer else None)
    yield Figure(f"writes a pod, {size}", "", max(run.writes / run.pods for run in runs), at_most=1.0)
    yield Figure(f"writes when idle, {size}", "", max(run.late for run in runs), at_most=0.0)


def _overhead(runs: Sequence[Run]) -> float:
    """Beside what the API server takes for the writes alone, in the same minute: a noisy machine slows both."""
    return median(run.seconds / run.bare_seconds for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deletion_cost", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000, help="the larger size; 0 leaves it out")
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured")
    options = parser.parse_args()
    small = run_size(options.pods, options.runs)
    large = run_size(options.many, max(1, options.runs - 1)) if options.many else []
    report = make_report(small, large)
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
