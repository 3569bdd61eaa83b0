"""`python -m benchmarks.rebalance`: decisions about a thousand drifted workloads, and what scale-downs leave behind."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rebalance.drifted import START, view
from benchmarks.rebalance.moving import measure
from benchmarks.rebalance.scale_downs import WRITERS, Tally, live
from benchmarks.report import Figure, Report, progress
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.kube.types.resources import DEPLOYMENTS
from plimsoll.runtime.decision import DisruptionLimits


def decisions(workloads: int, replicas: int) -> Report:
    """Every workload is looked at once, as after a restart."""
    limits = DisruptionLimits(10**6, 10**6, PlacementSettings().migrations.period)
    settings = PlacementSettings(migrations=limits)
    seen = view(workloads, replicas, settings)
    controller = PlacementController(settings)
    keys = [DEPLOYMENTS.key(deployment) for deployment in seen[DEPLOYMENTS]]
    begun, begun_cpu = time.perf_counter(), time.process_time()
    first = controller.decide(keys[0], seen, START)  # the picture of the cluster is made here
    first_seconds = time.perf_counter() - begun
    moving = sum(len(controller.decide(key, seen, START).actions) for key in keys)
    elapsed, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    if moving != workloads or not first.actions:
        raise SystemExit(f"{moving} moves of {workloads}: the decisions are wrong, so their pace says nothing")
    return Report(
        "rebalance",
        f"decide about {workloads:,} workloads of {replicas} replicas, all on the wrong class",
        [
            Figure("decisions", "/s", workloads / elapsed),
            Figure("CPU a decision", "ms", cpu / workloads * 1000),
            Figure("the first, with the picture of the cluster", "s", first_seconds),
        ],
        facts={"pods": workloads * replicas, "moves decided": moving},
    )


def scale_downs(histories: int) -> dict[str, Tally]:
    found = {}
    for make in WRITERS:
        tally = Tally()
        for seed in range(histories):
            live(seed, make(), tally)
        found[make().name] = tally
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--histories", type=int, default=3000)
    parser.add_argument("--moves", action="store_true", help="only W3: the pace of moves on a real control plane")
    options = parser.parse_args()
    if options.moves:
        moving = measure()
        moving.print(as_json=options.json)
        return 0 if moving.kept else 1
    progress("deciding")
    report = decisions(options.workloads, options.replicas)
    progress("scaling down")
    tallies = scale_downs(options.histories)
    ours = tallies["capacity"]
    kept = report.kept and ours.off_target == 0 and ours.below_minimum == 0
    if options.json:
        table: dict[str, Any] = {name: vars(tally) for name, tally in tallies.items()}
        print(json.dumps({**report.as_json(), "kept": kept, "scale-downs": table}, ensure_ascii=False))
    else:
        report.print(as_json=False)
        Console(width=140).print(_table(tallies, options.histories))
    return 0 if kept else 1


def _table(tallies: dict[str, Tally], histories: int) -> Table:
    table = Table(title=f"what scale-downs leave behind, {histories:,} histories", title_justify="left")
    for column in (
        "",
        "stops",
        "share off target",
        "moves needed",
        "below minimum",
        "zones apart by 2+",
        "writes a replica",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for name, tally in tallies.items():
        table.add_row(
            name, f"{tally.stops:,}", f"{tally.off_target:,}", f"{tally.migrations:,}", f"{tally.below_minimum:,}",
            f"{tally.uneven:,}", f"{tally.writes / tally.replicas:.2f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
