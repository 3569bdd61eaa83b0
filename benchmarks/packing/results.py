"""The results of the packing benchmarks, as figures beside a peer's and as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.packing import binding
from benchmarks.packing.binding import Bound
from benchmarks.packing.handover import HandOver
from benchmarks.packing.measure import Emptied, Packed
from benchmarks.packing.peers import KARPENTER, KarpenterPlan
from benchmarks.report import Figure, Report

# Not measured here: pods a second of Karpenter 1.15's BenchmarkSchedulingN, and seconds of Cluster Autoscaler's
# BenchmarkBinpackingEstimate, BenchmarkRunOnceScaleUp and BenchmarkRunOnceScaleDown, on two cores. Cluster Autoscaler is not
# published as a Go module that could be fetched and built like Karpenter.
QUOTED_PODS_PER_SECOND = {500: 224, 1_000: 230, 2_000: 241, 5_000: 133, 10_000: 95}
QUOTED_C1_SECONDS, QUOTED_C2_SECONDS, QUOTED_C3_SECONDS = 4.07, 12.9, 14.6
QUOTED_C1_NODES, QUOTED_C3_REMOVED = 2_595, 1_200

OWNERS = 500
_PROMISED_AT = (5_000, 10_000)  # pods
_TIMES_FASTER = 300
# Beyond what a straight line from 1,000 to 20,000 pods would give.
_GROWTH = (1_000, 20_000)
_GROWTH_AT_MOST = 1.5


@dataclass
class Results:
    k1: list[Packed] = field(default_factory=list)
    karpenter: dict[tuple[int, int], KarpenterPlan] = field(default_factory=dict)  # by number of pods and seed
    owned: Packed | None = None  # K1's pods with a label that distinguishes their OWNERS
    c1: Packed | None = None
    c2: Packed | None = None
    c3: list[Emptied] = field(default_factory=list)
    handover: HandOver | None = None
    bound: list[Bound] = field(default_factory=list)

    # ── for programs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.k1:
            found["K1"] = [{**_packed(run), "seed": run.seed, "price": run.price} for run in self.k1]
        if self.owned:
            found["K1owned"] = {**_packed(self.owned), "seed": self.owned.seed, "price": self.owned.price}
        if self.karpenter:
            found["karpenter"] = [
                {
                    "pods": plan.pods,
                    "seed": seed,
                    "seconds": plan.seconds,
                    "cpuSeconds": plan.cpu_seconds,
                    "podsPerSecond": plan.pods_per_second,
                    "ownBenchmarkPodsPerSecond": plan.own_pods_per_second,
                    "nodes": plan.nodes,
                    "price": plan.price,
                    "unplaced": plan.unplaced,
                }
                for (_, seed), plan in self.karpenter.items()
            ]
        if self.c1:
            found["C1"] = _packed(self.c1)
        if self.c2:
            found["C2"] = _packed(self.c2)
        if self.c3:
            alike, *mixed = [_emptied(run) for run in self.c3]
            found["C3"] = {**alike, "mixed": mixed}
        if self.handover:
            found["handover"] = self.handover.as_json()
        if self.bound:
            found["bind"] = binding.as_json(self.bound)
        return found

    # ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────

    def report(self, runs: int, seeds: Sequence[int]) -> Report:
        figures = self._k1_figures()
        if self.c1:
            figures += [
                Figure("C1: time", "s", self.c1.timing.seconds, QUOTED_C1_SECONDS, at_most=0.2),
                Figure("C1: CPU", "s", self.c1.timing.cpu_seconds),
                Figure("C1: nodes", "nodes", self.c1.nodes, QUOTED_C1_NODES, at_most=QUOTED_C1_NODES),
                _nothing_wrong("C1", [self.c1]),
            ]
        if self.c2:
            figures += [
                Figure("C2: time", "s", self.c2.timing.seconds, QUOTED_C2_SECONDS, at_most=0.3),
                Figure("C2: CPU", "s", self.c2.timing.cpu_seconds),
                Figure("C2: nodes", "nodes", self.c2.nodes, at_most=1_000),
                _nothing_wrong("C2", [self.c2]),
            ]
        for run in self.c3:
            name = "C3" if run.owners == 1 else f"C3, {run.owners} owners"
            figures += [
                Figure(f"{name}: time", "s", run.timing.seconds, QUOTED_C3_SECONDS, at_most=0.5),
                Figure(f"{name}: CPU", "s", run.timing.cpu_seconds),
                Figure(f"{name}: removed", "nodes", run.removed, QUOTED_C3_REMOVED, at_least=1_190),
                Figure(f"{name}: wrong", "pods", run.broken.total(), at_most=0),
            ]
        if self.handover:
            figures += self.handover.figures()
        figures += binding.figures(self.bound)
        karpenter = KARPENTER if self.karpenter else "Karpenter (quoted)"
        return Report(
            name="packing",
            work="place pods on new nodes (K1, C1, C2), find the nodes that can go (C3), hand a snapshot to the worker",
            figures=figures,
            peer="first fit, one pod after the other" if self.bound else f"{karpenter}, Cluster Autoscaler (quoted)",
            facts={"runs": runs, "seeds": ", ".join(map(str, seeds))},
        )

    def _k1_figures(self) -> list[Figure]:
        figures = []
        for pods in dict.fromkeys(run.pods for run in self.k1):
            runs = [run for run in self.k1 if run.pods == pods]
            beside = [(run, self.karpenter[pods, run.seed]) for run in runs if (pods, run.seed) in self.karpenter]
            rates = [plan.pods_per_second for _, plan in beside]
            name = f"K1, {pods:,} pods"
            figures += [
                Figure(
                    f"{name}: slowest seed",
                    "pods/s",
                    min(run.pods_per_second for run in runs),
                    max(rates) if rates else QUOTED_PODS_PER_SECOND.get(pods),
                    ratio_at_least=_TIMES_FASTER if rates and pods in _PROMISED_AT else None,
                ),
                Figure(
                    f"{name}: by CPU",
                    "pods/s",
                    min(run.pods_per_cpu_second for run in runs),
                    max((plan.pods / plan.cpu_seconds for _, plan in beside), default=None),
                ),
                _no_more(f"{name}: nodes", "nodes", runs[0].nodes, [(run.nodes, plan.nodes) for run, plan in beside]),
                _no_more(f"{name}: price", "an hour", runs[0].price, [(run.price, plan.price) for run, plan in beside]),
                _nothing_wrong(name, runs),
            ]
        if self.owned:
            name = f"K1, {self.owned.pods:,} pods of {OWNERS} owners"
            figures += [
                Figure(name, "pods/s", self.owned.pods_per_second),
                _nothing_wrong(name, [self.owned]),
            ]
        growth = self._growth()
        if growth is not None:
            figures.append(Figure("K1: time a pod, 20,000 against 1,000", "×", growth, at_most=_GROWTH_AT_MOST))
        return figures

    def _growth(self) -> float | None:
        few, many = ([run.timing.cpu_seconds / run.pods for run in self.k1 if run.pods == pods] for pods in _GROWTH)
        return min(many) / min(few) if few and many else None


def _no_more(name: str, unit: str, ours: float, beside: Sequence[tuple[float, float]]) -> Figure:
    """Never more than Karpenter: for the seed where we compare worst."""
    if not beside:
        return Figure(name, unit, ours)
    worst, peer = max(beside, key=lambda pair: pair[0] / pair[1])
    return Figure(name, unit, worst, peer, ratio_at_most=1.0)


def _nothing_wrong(name: str, runs: Sequence[Packed]) -> Figure:
    wrong = sum(run.broken.total() + run.unplaced for run in runs)
    return Figure(f"{name}: unplaced or wrong", "pods", wrong, at_most=0)


def _packed(run: Packed) -> dict[str, Any]:
    return {
        "pods": run.pods,
        "seconds": run.timing.seconds,
        "cpuSeconds": run.timing.cpu_seconds,
        "podsPerSecond": run.pods_per_second,
        "podsPerCpuSecond": run.pods_per_cpu_second,
        "nodes": run.nodes,
        "unplaced": run.unplaced,
        "violations": run.broken.total(),
    }


def _emptied(run: Emptied) -> dict[str, Any]:
    return {
        "owners": run.owners,
        "seconds": run.timing.seconds,
        "cpuSeconds": run.timing.cpu_seconds,
        "removed": run.removed,
        "violations": run.broken.total(),
    }
