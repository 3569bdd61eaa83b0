"""What a simulation came to: figures to compare two configurations by, and whatever must not have happened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, labels_of, name_of, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.cluster import Cluster
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.simulate.invariants import Witness
from plimsoll.simulate.invariants.observed import is_spot, replicas_of
from plimsoll.simulate.invariants.rule import Violation

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_WORKLOADS = (kinds.DEPLOYMENTS.storage_key, kinds.STATEFULSETS.storage_key)
# A cluster in which the operator has written nothing for so long, and nothing else happened, has come to rest.
QUIET_SECONDS = 120.0


class Prices(Struct, frozen=True):
    """Of an hour, in whatever money: of a whole machine where its instance type has a price, else of each of its CPUs."""

    spot: float = 0.012
    on_demand: float = 0.04
    machines: Mapping[str, float] = field(default_factory=dict)  # by instance type

    def of(self, node: Json) -> float:
        whole = self.machines.get(labels_of(node).get(_INSTANCE_TYPE, ""))
        if whole is not None:
            return whole
        cpus = parse_quantity(str(at(node, "status", "capacity", "cpu", default="0"))).milli / 1000
        return cpus * (self.spot if is_spot(node) else self.on_demand)


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
    node_hours: float
    machines_bought: int
    machines_given_back: int
    cost: float
    spot_share: float  # of replica hours on nodes
    settled_after_seconds: float | None  # since the last change; None: still writing at the end
    violations: tuple[Violation, ...]
    samples: tuple[Sample, ...] = ()


class _Standing(Struct, frozen=True):
    """How a workload stands between two changes."""

    missing: int = 0
    wanted: int = 0
    spot_pods: int = 0
    other_pods: int = 0


class Ledger:
    """Adds up over time, from one change of the cluster to the next; `look` notes how things stand, for a curve."""

    def __init__(self, cluster: Cluster, witness: Witness, prices: Prices) -> None:
        self._witness = witness
        self._prices = prices
        self._last = cluster.clock.monotonic()
        self._clock = cluster.clock
        self._workloads: dict[str, _Standing] = {}
        self._total = _Standing()
        self._nodes: dict[str, tuple[float, bool]] = {}  # by name: price an hour, and whether it is spot
        self._price = 0.0
        self._unavailable = self._cost = self._spot_hours = self._hours = self._node_hours = 0.0
        self._nodes_at_most = 0
        self.samples: list[Sample] = []
        for node in cluster.all(kinds.NODES):
            self._node_changed(node, there=True)
        for workload in witness.workloads():
            self._count(workload, there=True)
        cluster.api.storage.listeners.append(self._changed)

    def _changed(self, change: Change) -> None:
        there = change.type != "DELETED"
        if change.collection == kinds.PODS.storage_key:
            workload = self._witness.sight.workload_of(change.object)
            if workload is not None:
                self._pass()
                self._count(workload, there=True)
        elif change.collection in _WORKLOADS:
            self._pass()
            self._count(change.object, there=there)
        elif change.collection == kinds.NODES.storage_key:
            self._pass()
            self._node_changed(change.object, there=there)

    def _pass(self) -> None:
        now = self._clock.monotonic()
        if now == self._last:
            return
        hours, total, self._last = (now - self._last) / 3600, self._total, now
        self._unavailable += total.missing * hours * 60
        self._cost += self._price * hours
        self._node_hours += len(self._nodes) * hours
        self._spot_hours += total.spot_pods * hours
        self._hours += (total.spot_pods + total.other_pods) * hours

    def _node_changed(self, node: Json, *, there: bool) -> None:
        if there:
            self._nodes[name_of(node)] = (self._prices.of(node), is_spot(node))
        else:
            self._nodes.pop(name_of(node), None)
        self._price = sum(price for price, _ in self._nodes.values())
        self._nodes_at_most = max(self._nodes_at_most, len(self._nodes))

    def _count(self, workload: Json, *, there: bool) -> None:
        before = self._workloads.pop(uid_of(workload), _Standing())
        after = _Standing()
        if there:
            sight = self._witness.sight
            after = _Standing(sight.missing(workload), replicas_of(workload), *sight.split(workload))
            self._workloads[uid_of(workload)] = after
        total = self._total
        self._total = _Standing(
            total.missing + after.missing - before.missing,
            total.wanted + after.wanted - before.wanted,
            total.spot_pods + after.spot_pods - before.spot_pods,
            total.other_pods + after.other_pods - before.other_pods,
        )

    def look(self, seconds: float) -> None:
        total = self._total
        spot = sum(is_one for _, is_one in self._nodes.values())
        sample = Sample(seconds, len(self._nodes), spot, total.wanted - total.missing, total.wanted)
        # Most of a day nothing changes.
        if not self.samples or _shown(self.samples[-1]) != _shown(sample):
            self.samples.append(sample)

    def report(self, seconds: float, last_change: datetime, now: datetime) -> Report:
        self._pass()
        witness = self._witness
        last = max(witness.last_write, last_change) if witness.last_write is not None else last_change
        quiet = (now - last).total_seconds() >= QUIET_SECONDS
        return Report(
            hours=round(seconds / 3600, 2),
            evictions=witness.evictions,
            refused_evictions=witness.refused_evictions,
            most_evictions_of_one_pod=witness.often_evicted(),
            writes=dict(witness.writes),
            unavailable_minutes=round(self._unavailable, 2),
            nodes_at_most=self._nodes_at_most,
            nodes_at_end=len(self._nodes),
            node_hours=round(self._node_hours, 2),
            machines_bought=witness.machines_bought,
            machines_given_back=witness.machines_given_back,
            cost=round(self._cost, 2),
            spot_share=round(self._spot_hours / self._hours, 4) if self._hours else 0.0,
            settled_after_seconds=round((last - last_change).total_seconds(), 1) if quiet else None,
            violations=tuple(witness.violations),
            samples=tuple(self.samples),
        )


def _shown(sample: Sample) -> tuple[int, ...]:
    return sample.nodes, sample.spot_nodes, sample.pods_ready, sample.pods_wanted
