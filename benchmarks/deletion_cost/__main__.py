"""`python -m benchmarks.deletion_cost`: D1, the time to give 1,000 ready pods in 3 zones their values; and 10,000.

First beside a whole control plane, whose controllers react to every write and share the machine. Then with an API server alone: a
ReplicaSet controller looks at all pods of a ReplicaSet whenever one changes, which would hide how our own part grows.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.deletion_cost.cluster import (
    Trail,
    carrying,
    connected,
    deploy,
    node_lines,
    populate,
    switch,
    write_bare,
)
from benchmarks.operator_process import Operator, operator
from benchmarks.report import Figure, Report, progress
from plimsoll.kube.client.client import Client
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


async def measure(kubeconfig: Path, running: Operator, trail: Trail, pods: int, runs: int) -> list[Run]:
    async with connected(kubeconfig) as client:
        return [await _measure(client, running, trail, pods, f"{number} of {runs}") for number in range(1, runs + 1)]


async def _measure(client: Client, running: Operator, trail: Trail, pods: int, which: str) -> Run:
    progress(f"{pods} pods, {which}")
    bare_seconds = await write_bare(client, stamp=which)
    await asyncio.sleep(_IDLE_SECONDS)
    cpu_before, started = running.cpu_seconds, datetime.now(UTC)
    await switch(client, on=True)
    writes = await trail.until_done(pods)
    cpu_seconds = running.cpu_seconds - cpu_before
    # Written down when the reply to it is there, which is a little after the pod has its value.
    seconds = (writes[-1].time - started).total_seconds()
    await _confirm(client, pods)
    became = ", ".join(f"{count} {result}" for result, count in Counter(write.result for write in writes).items())
    progress(f"{seconds:.2f} s for writes: {became}; {cpu_seconds:.2f} s of CPU; bare writes {bare_seconds:.2f} s")
    await asyncio.sleep(_IDLE_SECONDS)
    late = len(trail.rest())
    megabytes = running.resident_megabytes
    await switch(client, on=False)
    await trail.until_done(pods)
    await _confirm(client, 0)
    return Run(pods, seconds, cpu_seconds, megabytes, len(writes), late, bare_seconds)


async def _confirm(client: Client, pods: int) -> None:
    if (found := await carrying(client)) != pods:
        raise RuntimeError(f"{found} pods carry a value; expected {pods}")


def run_size(pods: int, runs: int, *, alone: bool = False) -> list[Run]:
    """alone: an API server without controllers, scheduler and kubelets."""
    components = dict.fromkeys(("controller-manager", "scheduler", "kwok"), False) if alone else {}
    with ControlPlane.start(components=components) as cluster, tempfile.TemporaryDirectory() as directory:
        nodes = {line.split("zone=")[1][0]: cluster.add_nodes(line) for line in node_lines(pods)}
        progress(f"creating {pods} pods")

        async def create() -> None:
            async with connected(cluster.kubeconfig) as client:
                await (populate(client, pods, nodes) if alone else deploy(client, pods))

        asyncio.run(create())
        log, audit = Path(directory) / "operator.log", Path(directory) / "audit.jsonl"
        with operator(cluster.kubeconfig, log, "deletion-cost", f"operator.auditLog={audit}") as running:
            return asyncio.run(measure(cluster.kubeconfig, running, Trail(audit), pods, runs))


def make_report(whole: Sequence[Run], few: Sequence[Run], many: Sequence[Run]) -> Report:
    figures = [*_figures(whole, "", at_most_seconds=3.0, peer=True)]
    if many:
        best, larger = _best(few), _best(many)
        growth = (larger.seconds / larger.pods) / (best.seconds / best.pods)
        figures += [
            *_figures(few, ", API server alone"),
            *_figures(many, ", API server alone"),
            Figure("time a pod, as a multiple", "×", growth, at_most=1.3),
        ]
    runs = (*whole, *few, *many)
    facts: Mapping[str, object] = {
        "zones": 3,
        "runs": f"{len(whole)}, {len(few)} and {len(many)}, the fastest counts",
        "seconds": " ".join(f"{run.seconds:.2f}" for run in runs),
        "bare writes": " ".join(f"{run.bare_seconds:.2f}" for run in runs),
        "limits": "the defaults of the configuration",
    }
    work = "give the ready pods of a Deployment their values, from the switch to the last pod"
    return Report("deletion_cost", work, figures, peer=_PEER, facts=facts)


def _best(runs: Sequence[Run]) -> Run:
    return min(runs, key=lambda run: run.seconds)


def _figures(
    runs: Sequence[Run], where: str, *, at_most_seconds: float | None = None, peer: bool = False
) -> Iterator[Figure]:
    best = _best(runs)
    size = f"{best.pods:,} pods{where}"
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
    whole = run_size(options.pods, options.runs)
    few = run_size(options.pods, options.runs, alone=True) if options.many else []
    many = run_size(options.many, 1, alone=True) if options.many else []
    report = make_report(whole, few, many)
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
