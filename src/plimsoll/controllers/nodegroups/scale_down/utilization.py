"""How much of each node is used: by the requests of its pods, or as metrics.k8s.io measures it; and since when that is low.

`scale_down` reads it to find underutilized nodes. `UsagePoller` reads the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np
import structlog
from msgspec import DecodeError, Struct, field
from numpy.typing import NDArray

from plimsoll.controllers.nodegroups.types import NODE_GROUPS, ScaleDownPolicy
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.codec import decode
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import Metadata, Part, Resources
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Permission
from plimsoll.scheduling.pod_requests import allocatable, amounts
from plimsoll.scheduling.snapshot import Snapshot

log = structlog.get_logger()

# After a longer gap between two decisions a node counts as newly underutilized: it may have been busy in between.
MAX_OBSERVATION_GAP = timedelta(minutes=2)
METRICS_PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
READ_NODE_METRICS = Permission("metrics.k8s.io", "nodes", "list", cluster_wide=True)
# metrics-server measures every 15 s; an older measurement says nothing about now.
MAX_METRICS_AGE = timedelta(minutes=3)


class Utilization(Struct, frozen=True):
    """In percent of the node's allocatable resources."""

    cpu: float
    memory: float

    @property
    def highest(self) -> float:
        return max(self.cpu, self.memory)

    def below(self, policy: ScaleDownPolicy) -> bool:
        return self.cpu < policy.cpu_threshold and self.memory < policy.memory_threshold

    def __str__(self) -> str:
        return f"{self.cpu:.0f} % of CPU and {self.memory:.0f} % of memory requested"


class NodeUse(Protocol):
    """The use of each node, by whatever measure."""

    def of(self, node: Node) -> Utilization | None:
        """None if the use is not known; such a node is never underutilized."""
        ...

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        """The UIDs of the underutilized nodes."""
        ...


class RequestedUse:
    """The requests of each node's pods, as the packing engine counts them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows = snapshot.rows
        self._cpu, self._memory = (_percentages(snapshot, resource) for resource in (0, 1))

    def of(self, node: Node) -> Utilization | None:
        row = self._rows.get(node.name)
        if row is None or self._cpu[row] < 0 or self._memory[row] < 0:
            return None
        return Utilization(float(self._cpu[row]), float(self._memory[row]))

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        cpu, memory = self._cpu, self._memory
        low = (cpu >= 0) & (cpu < policy.cpu_threshold) & (memory >= 0) & (memory < policy.memory_threshold)
        if not low.any():
            return []
        rows, is_low = self._rows, low.tolist()
        metas = (node.metadata for node in nodes)
        return [meta.uid for meta in metas if (row := rows.get(meta.name)) is not None and is_low[row]]


def _percentages(snapshot: Snapshot, resource: int) -> NDArray[np.float64]:
    """Use of one resource per row of the snapshot, in percent; -1 for a node that does not have the resource."""
    capacity = snapshot.capacity[resource]
    return np.where(capacity > 0, 100 * snapshot.used[resource] / np.maximum(capacity, 1), -1.0)


class LowUseClocks:
    """Part of the controller's state: since when each node has been underutilized without a break. Lost on restart."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}  # by the Node's UID
        self._observed_at: datetime | None = None

    def observe(self, low: Iterable[str], now: datetime) -> Mapping[str, datetime]:
        """`low`: the UIDs of all nodes that are underutilized now. Returns since when each has been."""
        gap = self._observed_at is None or not timedelta(0) <= now - self._observed_at <= MAX_OBSERVATION_GAP
        before = {} if gap else self._since
        self._since = {uid: before.get(uid, now) for uid in low}
        self._observed_at = now
        return dict(self._since)


# ── measured by metrics.k8s.io ───────────────────────────────────────────────────────────────────────────────────────


class NodeMetrics(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    timestamp: datetime | None = None
    usage: Resources = field(default_factory=dict)


class NodeMetricsList(Part, frozen=True, gc=False):
    items: tuple[NodeMetrics, ...] = ()


class MeasuredUse(Struct):
    """The last measurement of each node, by name. `UsagePoller` writes it, decisions read it."""

    nodes: Mapping[str, NodeMetrics] = field(default_factory=dict)

    def at(self, now: datetime) -> MeasuredUseNow:
        return MeasuredUseNow(self.nodes, now)


class MeasuredUseNow(Struct, frozen=True):
    nodes: Mapping[str, NodeMetrics]
    now: datetime

    def of(self, node: Node) -> Utilization | None:
        """None without a recent measurement."""
        found, size = self.nodes.get(node.name), allocatable(node.status.allocatable)
        if (
            found is None
            or found.timestamp is None
            or not timedelta(0) <= self.now - found.timestamp <= MAX_METRICS_AGE
        ):
            return None
        used = amounts(found.usage)
        if not all(size.get(name) and name in used for name in ("cpu", "memory")):
            return None
        return Utilization(100 * used["cpu"] / size["cpu"], 100 * used["memory"] / size["memory"])

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        uses = ((node.uid, self.of(node)) for node in nodes)
        return [uid for uid, used in uses if used is not None and used.below(policy)]


class UsagePoller:
    """Reads the metrics of all nodes while this process leads and there are node groups."""

    controller = "nodegroups"

    def __init__(
        self, measured: MeasuredUse, client: Client, clock: Clock, *, interval: timedelta, cluster_key: Key
    ) -> None:
        self._measured = measured
        self._client = client
        self._clock = clock
        self._interval = interval
        self._cluster_key = cluster_key
        self._logged = ""  # the last error that was logged, to log each once

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:
        while True:
            if leading() and not view.stale and len(view[NODE_GROUPS]):
                await self.poll()
                look_at(self._cluster_key)
            await self._clock.sleep(self._interval.total_seconds())

    async def poll(self) -> None:
        try:
            listed = decode(await self._client.read(METRICS_PATH), NodeMetricsList)
        except (KubeError, DecodeError) as error:
            if str(error) != self._logged:
                log.warning("cannot read the metrics of nodes; is metrics-server installed?", error=str(error))
                self._logged = str(error)
            return  # the last measurements are kept, and age
        self._logged = ""
        self._measured.nodes = {item.metadata.name: item for item in listed.items}
