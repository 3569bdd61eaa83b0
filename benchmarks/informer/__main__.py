"""`python -m benchmarks.informer`: I1, the cost of holding a cluster of 20,000 pods."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.informer import load
from benchmarks.informer.ours import LISTINGS
from benchmarks.report import Figure, Report, progress
from tools.controlplane.cluster import ControlPlane
from tools.controlplane.gobuild import build_go_module

_COMPARATOR = Path(__file__).with_name("comparator")
_WITHOUT = {"controller-manager": False, "scheduler": False, "kwok": False}  # nothing shall change what is measured
_MEGABYTE = 1e6
_PROMISED_AT = 20_000  # pods; in a small cluster the interpreter itself would be all that is compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.informer", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured, in turn")
    parser.add_argument("--burst", type=int, default=3_000, help="pods changed while our event loop is held up")
    parser.add_argument("--kubeconfig", type=Path, help="a cluster that is already filled, instead of a new one")
    options = parser.parse_args()
    comparator = build_go_module(_COMPARATOR, "informer-comparator")
    with cluster(options.kubeconfig, options.pods, options.nodes) as kubeconfig:
        runs = measure(kubeconfig, comparator, options.runs, min(options.burst, options.pods))
    report = make_report(runs, options)
    report.print(as_json=options.json)
    return 0 if report.kept else 1


@contextmanager
def cluster(kubeconfig: Path | None, pods: int, nodes: int) -> Iterator[Path]:
    if kubeconfig is not None:
        yield kubeconfig
        return
    with ControlPlane.start(components=_WITHOUT) as control_plane:
        progress(f"creating {pods} pods on {nodes} nodes; this takes minutes")
        asyncio.run(load.fill(control_plane.kubeconfig, pods=pods, nodes=nodes))
        yield control_plane.kubeconfig


def measure(kubeconfig: Path, comparator: Path, runs: int, burst: int) -> dict[str, list[dict[str, Any]]]:
    """Each in a process of its own, in turn, so that a noisy minute of the machine falls upon all."""
    # Who comes first finds caches cold, the server's and the interpreter's; that is no one's own cost.
    run_comparator(comparator, kubeconfig)
    run_ours(kubeconfig, "whole")
    figures: dict[str, list[dict[str, Any]]] = {"peer": [], **{listing: [] for listing in LISTINGS}}
    for number in range(1, runs + 1):
        progress(f"measuring, {number} of {runs}")
        for listing in LISTINGS:
            figures[listing].append(run_ours(kubeconfig, listing, burst if listing == "whole" else 0))
        figures["peer"].append(run_comparator(comparator, kubeconfig))
    return figures


def run_comparator(comparator: Path, kubeconfig: Path) -> dict[str, Any]:
    done = subprocess.run([comparator, kubeconfig], env=_environment(), check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def run_ours(kubeconfig: Path, listing: str, burst: int = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.informer.ours", str(kubeconfig), listing]
    stamp = str(time.time())
    with subprocess.Popen(
        command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            figures: dict[str, Any] = json.loads(process.stdout.readline())
            if burst:
                print("hold", file=process.stdin, flush=True)
                process.stdout.readline()
                asyncio.run(load.touch(kubeconfig, pods=burst, stamp=stamp))
                print(f"go {burst} {stamp}", file=process.stdin, flush=True)
                figures["burst"] = json.loads(process.stdout.readline())
        except BaseException:
            process.kill()  # it would wait for us, and we for it
            raise
    return figures


def _environment() -> Mapping[str, str]:
    """Both count from here, so that what it takes to start counts too."""
    environment = {**os.environ, "STARTED": str(time.time())}
    # Modules are compiled once, as in any installation, and not at each start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**environment, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "plimsoll-bytecode")}


def make_report(runs: Mapping[str, list[dict[str, Any]]], options: argparse.Namespace) -> Report:
    ours, peer = runs["whole"], runs["peer"]
    bursts = [run["burst"] for run in ours if "burst" in run]
    memory, cpu, time_ = (0.25, 1.0, 1.2) if ours[0]["pods"] >= _PROMISED_AT else (None, None, None)
    figures = [
        Figure("memory held", "MB", _memory(ours), _memory(peer), ratio_at_most=memory),
        Figure("CPU to sync", "s", _least(ours, "cpu_seconds"), _least(peer, "cpu_seconds"), ratio_at_most=cpu),
        Figure("time to sync", "s", _least(ours, "sync_seconds"), _least(peer, "sync_seconds"), ratio_at_most=time_),
        Figure("peak memory", "MB", _peak(ours)),
        *_stalls("while syncing", ours),
        *(_stalls("in a burst", bursts) if bursts else ()),
    ]
    for listing in ("paged", "streamed"):
        other = runs[listing]
        figures += [
            Figure(f"{listing}: memory held", "MB", _memory(other), _memory(peer)),
            Figure(f"{listing}: CPU to sync", "s", _least(other, "cpu_seconds"), _least(peer, "cpu_seconds")),
            Figure(f"{listing}: time to sync", "s", _least(other, "sync_seconds"), _least(peer, "sync_seconds")),
            Figure(f"{listing}: peak memory", "MB", _peak(other)),
        ]
    return Report(
        "informer",
        "hold every Pod, Node, ReplicaSet and Deployment of a cluster",
        figures,
        peer="controller-runtime 0.24",
        facts={"pods": ours[0]["pods"], "nodes": options.nodes, "runs": options.runs, "burst": options.burst},
    )


def _stalls(when: str, runs: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The longest wait of another task; and of the longest stretches of our own computing, the longest of all runs."""
    return [
        Figure(f"longest stall {when}", "ms", 1000 * _least(runs, "stall_seconds"), at_most=50),
        Figure(f"longest computing {when}", "ms", 1000 * _most(runs, "busy_stall_seconds"), at_most=50),
    ]


def _least(runs: Iterable[Mapping[str, Any]], name: str) -> float:
    """Of the least disturbed run: whatever else runs on the machine only ever adds."""
    return float(min(run[name] for run in runs))


def _most(runs: Iterable[Mapping[str, Any]], name: str) -> float:
    return float(max(run[name] for run in runs))


def _memory(runs: Iterable[Mapping[str, Any]]) -> float:
    return float(median(run["resident_bytes"] for run in runs)) / _MEGABYTE


def _peak(runs: Iterable[Mapping[str, Any]]) -> float:
    return float(median(run["peak_bytes"] for run in runs)) / _MEGABYTE


if __name__ == "__main__":
    sys.exit(main())
