"""K1, C1, C2, C3: `python -m benchmarks.packing [--json] [--only NAME] [--pods N] [--seed N] [--runs N] [--peers]`.

`--only bind` creates planned nodes on a real control plane and leaves the pods to kube-scheduler; it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.packing import measure, workloads
from benchmarks.packing.binding import ORDERS, bound
from benchmarks.packing.handover import measure_handover
from benchmarks.packing.peers import KARPENTER, build, karpenter
from benchmarks.packing.results import OWNERS, Results
from benchmarks.report import progress

_NAMES = ("K1", "C1", "C2", "C3", "handover")
_SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
_SEEDS = (1, 2, 3)
_OWNED_AT_MOST = 5_000  # pods
_PEER_PACKS_EVERY_SEED = 2_000  # pods; beyond that it takes half a minute or more and runs for the first seed only


def main() -> int:
    options = _options()
    wanted = options.only or list(_NAMES)
    sizes, seeds = tuple(options.pods or _SIZES), tuple(options.seed or _SEEDS)
    results = Results()
    if "K1" in wanted:
        program = build() if options.peers else None
        for size in sizes:
            _diverse(results, size, seeds, options.runs, program if size <= options.peers_at_most else None)
        progress(f"K1, {OWNERS} owners")
        owned = workloads.diverse_pods(min(max(sizes), _OWNED_AT_MOST), seeds[0], owners=OWNERS)
        results.owned = measure.packed(owned, workloads.diverse_types(), options.runs, seeds[0])
    if "C1" in wanted:
        progress("C1")
        results.c1 = measure.packed(workloads.two_shapes(), workloads.small_nodes(), options.runs)
    if "C2" in wanted:
        progress("C2")
        results.c2 = measure.packed(workloads.alike(), workloads.wide_nodes(), options.runs)
    if "C3" in wanted:
        progress("C3")
        results.c3 = [measure.emptied(workloads.half_empty(n, seeds[0]), n, options.runs) for n in (1, 200)]
    if "handover" in wanted:
        progress("handover")
        results.handover = measure_handover(options.runs)
    if "bind" in wanted:
        results.bound = bound(tuple(options.pods or (1_000,)), seeds, options.order or ORDERS)
    report = results.report(options.runs, seeds)
    if options.json:
        print(json.dumps({**results.as_json(), **report.as_json()}, ensure_ascii=False))
    else:
        report.print(as_json=False)
    return 0 if report.kept else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--only", action="append", choices=(*_NAMES, "bind"), help="this one; may be repeated (default: all but bind)"
    )
    parser.add_argument(
        "--order", action="append", choices=ORDERS, help="in which pods arrive for bind (default: both)"
    )
    parser.add_argument(
        "--pods", action="append", type=int, metavar="N", help="how many pods K1 packs; may be repeated"
    )
    parser.add_argument("--seed", action="append", type=int, metavar="N", help="of K1's pods; may be repeated")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="how often each is measured (default 7)")
    parser.add_argument(
        "--peers", action="store_true", help=f"build {KARPENTER} and let it pack K1's pods too; minutes"
    )
    parser.add_argument(
        "--peers-at-most",
        type=int,
        default=10_000,
        metavar="N",
        help="leave Karpenter out beyond N pods (default 10,000)",
    )
    return parser.parse_args()


def _diverse(results: Results, size: int, seeds: Sequence[int], runs: int, program: Path | None) -> None:
    """Run K1, with Karpenter between two halves of our runs, so that a noisy minute of the machine affects both."""
    template = workloads.diverse_types()

    def ours(times: int) -> list[measure.Packed]:
        progress(f"K1, {size:,} pods")
        return [measure.packed(workloads.diverse_pods(size, seed), template, times, seed) for seed in seeds]

    if program is None:
        results.k1 += ours(runs)
        return
    before = ours(-(-runs // 2))
    for seed in seeds if size <= _PEER_PACKS_EVERY_SEED else seeds[:1]:
        progress(f"{KARPENTER}: {size:,} pods, seed {seed}")
        results.karpenter[size, seed] = karpenter(program, workloads.diverse_pods(size, seed))
    after = ours(max(1, runs // 2))
    results.k1 += [measure.faster(one, other) for one, other in zip(before, after, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
