"""Creates planned nodes on a real control plane and leaves the pods to kube-scheduler: what stays pending, at what
price.

Three plans for the same pods: ours, ours without headroom, and a first fit pod by pod, largest first, which fills each
node completely. The price of each stands beside what it leaves pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.report import Figure, progress
from plimsoll.kube.types.core import Node
from plimsoll.scheduling.pack import pack
from tests.scheduling import k1
from tests.scheduling.arrivals import Order, as_they_are, left_pending, mixed
from tests.scheduling.cases import Case, pod, read
from tests.scheduling.first_fit import first_fit
from tests.scheduling.real import RealScheduler
from tools.controlplane.cluster import ControlPlane

ORDERS: dict[str, Order] = {"mixed": mixed, "a node each last": as_they_are}
_MOST_LEFT_PENDING = 0.5  # %
_OTHERS_AT_MOST = 2_000  # pods; beyond that ours only, because the yardstick checks every node for every pod


@dataclass(frozen=True)
class Bound:
    pods: int
    seed: int
    order: str
    plan: str
    nodes: int
    price: float
    pending: int


def bound(sizes: Sequence[int], seeds: Sequence[int], orders: Iterable[str]) -> list[Bound]:
    return [run for order in orders for pods in sizes for seed in seeds for run in _runs(pods, seed, order)]


def _runs(pods: int, seed: int, order: str) -> Iterator[Bound]:
    manifests = ORDERS[order](k1.manifests(pods, seed), seed)
    case = Case(
        pending=tuple(pod(manifest["metadata"]["name"], manifest) for manifest in manifests), templates=(k1.template(),)
    )
    for name, nodes, price in _plans(case):
        progress(f"bind, {pods:,} pods, seed {seed}, {order}: {name}, {len(nodes):,} nodes for {price:,.0f}")
        # One control plane each: what a scheduler remembers of deleted nodes would affect the result.
        with ControlPlane.start() as cluster:
            real = RealScheduler(cluster)
            real.add_nodes(nodes)
            real.submit_all(manifests)
            left = left_pending(real, 0)
        kinds = Counter(str(sorted(pod["metadata"]["labels"].items())) for pod in left)
        progress(f"  {len(left)} pending: {dict(kinds)}")
        yield Bound(pods, seed, order, name, len(nodes), price, len(left))


def _plans(case: Case) -> Iterator[tuple[str, list[Node], float]]:
    few = len(case.pending) <= _OTHERS_AT_MOST
    for name, headroom in (("ours", True), ("ours, exact", False)) if few else (("ours", True),):
        packing = pack(case.snapshot(), case.pending, case.templates, headroom=headroom)
        yield name, [*read(case, packing).before.nodes.values()], packing.price
    if few:
        greedy = first_fit(case)
        yield "first fit", [*greedy.before.nodes.values()], greedy.price


def figures(runs: Sequence[Bound]) -> list[Figure]:
    """Ours beside the first fit, and the exact fit by itself."""
    found = []
    for run in runs:
        if run.plan == "first fit":
            continue
        beside = next((r for r in runs if r.plan == "first fit" and _same_pods(r, run)), None)
        name = f"bind, {run.pods:,} pods, seed {run.seed}, {run.order}, {run.plan}"
        promise = _MOST_LEFT_PENDING if run.plan == "ours" else None
        pending = _percent(beside) if beside else None
        found += [
            Figure(f"{name}: pending", "%", _percent(run), pending, at_most=promise),
            Figure(f"{name}: price", "an hour", run.price, beside.price if beside else None),
        ]
    return found


def as_json(runs: Sequence[Bound]) -> list[dict[str, Any]]:
    return [asdict(run) for run in runs]


def _same_pods(one: Bound, other: Bound) -> bool:
    return (one.pods, one.seed, one.order) == (other.pods, other.seed, other.order)


def _percent(run: Bound) -> float:
    return 100 * run.pending / run.pods
