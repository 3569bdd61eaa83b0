"""What a simulation came to: figures to compare two configurations by, and whatever must not have happened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.kube.quantity import parse_quantity
from plimsoll.sim.api import kinds
from plimsoll.sim.api.documents import at
from plimsoll.sim.cluster import Cluster
from plimsoll.simulation.witness import Violation, Witness, is_spot


class Prices(Struct, frozen=True):
    """Of a CPU for an hour, in whatever money."""

    spot: float = 0.012
    on_demand: float = 0.04


class Sample(Struct, frozen=True, rename="camel"):
    at_seconds: float
    nodes: int
    spot_nodes: int
    pods_ready: int
    pods_wanted: int


class Report(Struct, frozen=True, rename="camel"):
    hours: float
    evictions: int
    refused_evictions: int
    most_evictions_of_one_pod: int
    writes: Mapping[str, int]
    unavailable_minutes: float  # of replicas: one missing for a minute is 1
    nodes_at_most: int
    nodes_at_end: int
    cost: float
    spot_share: float  # of replica hours on nodes
    settled_after_seconds: float | None  # since the last change; None: still writing at the end
    violations: tuple[Violation, ...]
    samples: tuple[Sample, ...] = ()


class _Standing(Struct, frozen=True):
    """How things stand between two changes."""

    nodes: int = 0
    spot_nodes: int = 0
    price: float = 0.0  # an hour
    missing: int = 0
    wanted: int = 0
    spot_pods: int = 0
    other_pods: int = 0


class Ledger:
    """Adds up over time; `look` is called at every step of the simulation."""

    def __init__(self, cluster: Cluster, witness: Witness, prices: Prices) -> None:
        self._cluster = cluster
        self._witness = witness
        self._prices = prices
        self._last = 0.0
        self._standing = _Standing()
        self._revision = -1
        self._unavailable = self._cost = self._spot_hours = self._hours = 0.0
        self._nodes_at_most = 0
        self.samples: list[Sample] = []

    def look(self, seconds: float) -> None:
        hours, standing = (seconds - self._last) / 3600, self._standing
        self._last = seconds
        self._unavailable += standing.missing * hours * 60
        self._cost += standing.price * hours
        self._spot_hours += standing.spot_pods * hours
        self._hours += (standing.spot_pods + standing.other_pods) * hours
        # Most of a day nothing changes, and counting every pod again would be most of the work.
        if self._cluster.api.storage.revision == self._revision:
            return
        self._revision = self._cluster.api.storage.revision
        self._standing = standing = self._count()
        self._nodes_at_most = max(self._nodes_at_most, standing.nodes)
        ready = standing.wanted - standing.missing
        self.samples.append(Sample(seconds, standing.nodes, standing.spot_nodes, ready, standing.wanted))

    def _count(self) -> _Standing:
        nodes = self._cluster.all(kinds.NODES)
        price = 0.0
        for node in nodes:
            cpus = parse_quantity(str(at(node, "status", "capacity", "cpu", default="0"))).milli / 1000
            price += cpus * (self._prices.spot if is_spot(node) else self._prices.on_demand)
        missing = wanted = spot_pods = other_pods = 0
        for workload in self._witness.workloads():
            missing += self._witness.missing(workload)
            wanted += int(at(workload, "spec", "replicas", default=1))
            spot, others = self._witness.split(workload)
            spot_pods += spot
            other_pods += others
        return _Standing(
            len(nodes), sum(is_spot(node) for node in nodes), price, missing, wanted, spot_pods, other_pods
        )

    def report(self, seconds: float, last_change: datetime, now: datetime) -> Report:
        witness = self._witness
        last = max(witness.last_write, last_change) if witness.last_write is not None else last_change
        quiet = (now - last).total_seconds() >= QUIET_SECONDS
        return Report(
            hours=round(seconds / 3600, 2),
            evictions=witness.evictions,
            refused_evictions=witness.refused_evictions,
            most_evictions_of_one_pod=witness.often_evicted(),
            writes=dict(witness.writes),
            unavailable_minutes=round(self._unavailable, 1),
            nodes_at_most=self._nodes_at_most,
            nodes_at_end=self.samples[-1].nodes if self.samples else 0,
            cost=round(self._cost, 2),
            spot_share=round(self._spot_hours / self._hours, 4) if self._hours else 0.0,
            settled_after_seconds=round((last - last_change).total_seconds(), 1) if quiet else None,
            violations=tuple(witness.violations),
            samples=tuple(self.samples),
        )


# A cluster in which the operator has written nothing for so long, and nothing else happened, has come to rest.
QUIET_SECONDS = 120.0
