"""The report of a simulation: figures by which to compare configurations, and the violations of invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, object_labels, uid_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.simulate.invariants import InvariantChecker
from plimsoll.simulate.invariants.observed import is_spot, replicas_of
from plimsoll.simulate.invariants.rule import Violation

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_WORKLOADS = (kinds.DEPLOYMENTS.storage_key, kinds.STATEFULSETS.storage_key)
# The cluster counts as settled when neither the operator nor anyone else wrote for this long.
QUIET_SECONDS = 120.0


class Prices(Struct, frozen=True, rename="camel"):
    """Prices per hour, in any currency: per machine if its instance type has a price, else per CPU."""

    spot: float = 0.012
    on_demand: float = 0.04
    machines: Mapping[str, float] = field(default_factory=dict)  # by instance type

    def of(self, node: Json) -> float:
        whole = self.machines.get(object_labels(node).get(_INSTANCE_TYPE, ""))
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
    spot_pods: int  # bound to spot nodes
    other_pods: int  # bound to other nodes
    price_per_hour: float  # of all nodes


class Report(Struct, frozen=True, rename="camel"):
    hours: float
    evictions: int
    refused_evictions: int
    most_evictions_of_one_pod: int
    writes: Mapping[str, int]
    unavailable_minutes: float  # replica minutes: one replica missing for one minute is 1
    nodes_at_most: int
    nodes_at_end: int
    node_hours: float
    machines_bought: int
    machines_given_back: int
    cost: float
    spot_share: float  # share of replica hours on spot nodes
    settled_after_seconds: float | None  # since the last scenario change; None: still writing at the end
    violations: tuple[Violation, ...]
    prices: Prices = Prices()  # that the cost is based on
    controllers: tuple[str, ...] = ()  # that were enabled
    samples: tuple[Sample, ...] = ()
    evictions_at_seconds: tuple[float, ...] = ()


class _ReplicaCounts(Struct, frozen=True):
    """The replicas of a workload, or of all workloads, between two changes."""

    missing: int = 0
    wanted: int = 0
    spot_pods: int = 0
    other_pods: int = 0


class ReportBuilder:
    """Integrates cost, node hours and availability from one change of the cluster to the next; `sample` records a curve point."""

    def __init__(self, cluster: EmbeddedCluster, invariants: InvariantChecker, prices: Prices) -> None:
        self._witness = invariants
        self._prices = prices
        self._last = cluster.clock.monotonic()
        self._began = cluster.clock.now()
        self._clock = cluster.clock
        self._workloads: dict[str, _ReplicaCounts] = {}
        self._total = _ReplicaCounts()
        self._nodes: dict[str, tuple[float, bool]] = {}  # by name: price per hour, and whether it is spot
        self._price = 0.0
        self._unavailable = self._cost = self._spot_hours = self._hours = self._node_hours = 0.0
        self._nodes_at_most = 0
        self.samples: list[Sample] = []
        for node in cluster.all(kinds.NODES):
            self._node_changed(node, there=True)
        for workload in invariants.workloads():
            self._count(workload, there=True)
        cluster.api.storage.listeners.append(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        there = change.type != "DELETED"
        if change.collection == kinds.PODS.storage_key:
            workload = self._witness.observed.workload_of(change.object)
            if workload is not None:
                self._advance()
                self._count(workload, there=True)
        elif change.collection in _WORKLOADS:
            self._advance()
            self._count(change.object, there=there)
        elif change.collection == kinds.NODES.storage_key:
            self._advance()
            self._node_changed(change.object, there=there)

    def _advance(self) -> None:
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
        before = self._workloads.pop(uid_of(workload), _ReplicaCounts())
        after = _ReplicaCounts()
        if there:
            observed = self._witness.observed
            after = _ReplicaCounts(observed.missing(workload), replicas_of(workload), *observed.split(workload))
            self._workloads[uid_of(workload)] = after
        total = self._total
        self._total = _ReplicaCounts(
            total.missing + after.missing - before.missing,
            total.wanted + after.wanted - before.wanted,
            total.spot_pods + after.spot_pods - before.spot_pods,
            total.other_pods + after.other_pods - before.other_pods,
        )

    def sample(self, seconds: float) -> None:
        """Record the current sizes at `seconds` from the start, unless they equal the last sample."""
        total = self._total
        spot = sum(is_one for _, is_one in self._nodes.values())
        sample = Sample(
            seconds, len(self._nodes), spot, total.wanted - total.missing, total.wanted, total.spot_pods,
            total.other_pods, round(self._price, 4),
        )  # fmt: skip
        if not self.samples or _sizes(self.samples[-1]) != _sizes(sample):
            self.samples.append(sample)

    def report(self, seconds: float, last_change: datetime, now: datetime) -> Report:
        self._advance()
        invariants = self._witness
        last = max(invariants.last_write, last_change) if invariants.last_write is not None else last_change
        quiet = (now - last).total_seconds() >= QUIET_SECONDS
        return Report(
            hours=round(seconds / 3600, 2),
            evictions=invariants.evictions,
            refused_evictions=invariants.refused_evictions,
            most_evictions_of_one_pod=invariants.most_evictions_of_one_pod(),
            writes=dict(invariants.writes),
            unavailable_minutes=round(self._unavailable, 2),
            nodes_at_most=self._nodes_at_most,
            nodes_at_end=len(self._nodes),
            node_hours=round(self._node_hours, 2),
            machines_bought=invariants.machines_bought,
            machines_given_back=invariants.machines_given_back,
            cost=round(self._cost, 2),
            spot_share=round(self._spot_hours / self._hours, 4) if self._hours else 0.0,
            settled_after_seconds=round((last - last_change).total_seconds(), 1) if quiet else None,
            violations=tuple(invariants.violations),
            prices=self._prices,
            controllers=tuple(invariants.observed.config.controllers.enabled),
            samples=tuple(self.samples),
            evictions_at_seconds=tuple(
                round((at - self._began).total_seconds(), 1) for at in invariants.evicted_at if at >= self._began
            ),
        )


def _sizes(sample: Sample) -> Sample:
    return replace(sample, at_seconds=0.0)


def _settled(report: Report) -> str:
    return "not yet" if report.settled_after_seconds is None else f"{report.settled_after_seconds:.0f} s"


# Label, text and, where configurations can be compared by a difference, the value of each figure.
FIGURES: Sequence[tuple[str, Callable[[Report], str], Callable[[Report], float | None] | None]] = (
    ("evictions", lambda one: str(one.evictions), lambda one: one.evictions),
    ("most evictions of one pod", lambda one: str(one.most_evictions_of_one_pod), lambda one: one.most_evictions_of_one_pod),
    ("evictions refused by budgets", lambda one: str(one.refused_evictions), lambda one: one.refused_evictions),
    ("unavailable replica minutes", lambda one: f"{one.unavailable_minutes:g}", lambda one: one.unavailable_minutes),
    ("nodes: most, at the end", lambda one: f"{one.nodes_at_most}, {one.nodes_at_end}", None),
    ("machines ordered, deleted", lambda one: f"{one.machines_bought}, {one.machines_given_back}", None),
    ("node hours", lambda one: f"{one.node_hours:g}", lambda one: one.node_hours),
    ("cost", lambda one: f"{one.cost:.2f}", lambda one: one.cost),
    ("spot share of replica hours", lambda one: f"{100 * one.spot_share:.1f} %", lambda one: round(100 * one.spot_share, 1)),
    ("settled after the last change", _settled, lambda one: one.settled_after_seconds),
    ("writes", lambda one: ", ".join(f"{count} {kind}" for kind, count in one.writes.items()) or "none", None),
    ("violations", lambda one: str(len(one.violations)) if one.violations else "none", lambda one: len(one.violations)),
)  # fmt: skip


def assumptions(reports: Sequence[Report]) -> str:
    """The enabled controllers and the prices that the figures are based on."""
    enabled = [", ".join(one.controllers) or "none" for one in reports]
    same = enabled[0] if len(set(enabled)) == 1 else "; ".join(enabled)
    prices = reports[0].prices
    machines = "".join(f", {name} {price:g} per machine" for name, price in sorted(prices.machines.items()))
    return (
        f"Enabled controllers: {same}. Assumed prices per hour: spot {prices.spot:g} and on-demand {prices.on_demand:g} per CPU"
        f"{machines} (change with --price)."
    )
