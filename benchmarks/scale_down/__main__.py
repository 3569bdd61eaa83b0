"""`python -m benchmarks.scale_down`: how even a scale-down stays, after thousands of histories, by who writes the costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.report import machine, progress
from benchmarks.scale_down.model import World, Writer
from benchmarks.scale_down.writers import KubernetesAlone, Plimsoll, ReferenceAlgorithm
from plimsoll.controllers.deletion_cost.order import least_skews, skews

_WRITERS: tuple[Callable[[], Writer], ...] = (KubernetesAlone, ReferenceAlgorithm, Plimsoll)


@dataclass
class Tally:
    """What one way of writing came to."""

    histories: int = 0
    uneven: int = 0  # histories after which some n is left with a skew above 1 that deletion alone could have avoided
    sizes: int = 0  # the n of all histories at which 1 could be kept
    uneven_sizes: int = 0
    worst_skew: int = 0  # at any of those n
    writes: int = 0
    pods: int = 0
    seeds: list[int] = field(default_factory=list)  # of some uneven histories, to look at them

    def add(self, world: World, seed: int) -> None:
        zones = world.zones_in_order()
        course = [
            real for real, least in zip(skews(zones), least_skews(Counter(zones)), strict=True) if least <= 1
        ]  # fmt: skip
        above = [skew for skew in course if skew > 1]
        self.histories += 1
        self.uneven += bool(above)
        self.sizes += len(course)
        self.uneven_sizes += len(above)
        self.worst_skew = max(self.worst_skew, *course, 0)
        self.writes += world.writer.writes
        self.pods += world.made
        if above and len(self.seeds) < 5:
            self.seeds.append(seed)


def live(seed: int, writer: Writer) -> World:
    """One history: the same happenings for every writer, though what they hit may differ."""
    rng = Random(seed)
    world = World({zone: rng.randint(1, 3) for zone in ("a", "b", "c")}, Random(seed + 1), writer)
    world.scale(rng.randint(3, 15))
    for _ in range(rng.randint(3, 10)):
        match rng.choices(("lose", "drain", "outage", "stumble", "roll out", "scale"), (5, 3, 1, 2, 1, 3))[0]:
            case "lose":
                world.lose(rng.getrandbits(16))
            case "drain":
                world.drain(rng.getrandbits(16))
            case "outage":
                world.outage(rng.getrandbits(16))
            case "stumble":
                world.stumble(rng.getrandbits(16))
            case "roll out":
                world.roll_out()
            case "scale":
                world.scale(rng.randint(3, 20))
    return world


def run(histories: int, seed: int) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    for make in _WRITERS:
        progress(f"{make().name}: {histories} histories")
        tally = Tally()
        for number in range(histories):
            tally.add(live(seed + number, make()), seed + number)
        tallies[make().name] = tally
    return tallies


def as_json(tallies: dict[str, Tally], seed: int) -> dict[str, Any]:
    return {
        "benchmark": "scale_down",
        "seed": seed,
        "kept": kept(tallies),
        "writers": {
            name: {
                "histories": tally.histories,
                "uneven_histories": tally.uneven,
                "sizes": tally.sizes,
                "uneven_sizes": tally.uneven_sizes,
                "worst_skew": tally.worst_skew,
                "writes": tally.writes,
                "writes_per_pod": round(tally.writes / tally.pods, 4),
                "uneven_seeds": tally.seeds,
            }
            for name, tally in tallies.items()
        },
        "machine": machine(),
    }


def as_table(tallies: dict[str, Tally], seed: int) -> Table:
    table = Table(title="Scaling down to every n, where a skew of at most 1 could be kept", title_justify="left")
    table.caption = f"3 zones, seed {seed}; pods are lost, drained, rolled out, scaled, away with their zone, not ready"
    for column in ("", "uneven histories", "uneven sizes", "worst skew", "writes", "writes a pod"):
        table.add_column(column, justify="right" if column else "left")
    for name, tally in tallies.items():
        table.add_row(
            name,
            f"{tally.uneven:,} of {tally.histories:,}",
            f"{tally.uneven_sizes:,} of {tally.sizes:,}",
            str(tally.worst_skew),
            f"{tally.writes:,}",
            f"{tally.writes / tally.pods:.2f}",
        )
    return table


def kept(tallies: dict[str, Tally]) -> bool:
    return tallies[Plimsoll.name].uneven == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_down", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=2_000)
    options = parser.parse_args()
    tallies = run(options.histories, options.seed)
    if options.json:
        print(json.dumps(as_json(tallies, options.seed)))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(as_table(tallies, options.seed))
    return 0 if kept(tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
