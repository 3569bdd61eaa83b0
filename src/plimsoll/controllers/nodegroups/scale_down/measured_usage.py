"""What nodes really use, as metrics.k8s.io measures it: an alternative to what their pods request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import structlog
from msgspec import DecodeError, Struct, field

from plimsoll.controllers.nodegroups.scale_down.utilisation import Utilisation
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, ScaleDownPolicy
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.codec import decode
from plimsoll.kube.types.core import Metadata, Node, Part, Resources
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Permission
from plimsoll.scheduling.pod_requests import allocatable, amounts

log = structlog.get_logger()

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
USE_OF_NODES = Permission("metrics.k8s.io", "nodes", "list", cluster_wide=True)
# metrics-server measures every 15 s; what is much older tells nothing about now.
OLDEST = timedelta(minutes=3)


class NodeMetrics(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    timestamp: datetime | None = None
    usage: Resources = field(default_factory=dict)


class NodeMetricsList(Part, frozen=True, gc=False):
    items: tuple[NodeMetrics, ...] = ()


class Measured(Struct):
    """The last measurement of each node, by name; written by the observer, read by decisions."""

    nodes: Mapping[str, NodeMetrics] = field(default_factory=dict)

    def at(self, now: datetime) -> MeasuredNow:
        return MeasuredNow(self.nodes, now)


class MeasuredNow(Struct, frozen=True):
    nodes: Mapping[str, NodeMetrics]
    now: datetime

    def of(self, node: Node) -> Utilisation | None:
        """None where nothing recent is known: then nothing is concluded."""
        found, size = self.nodes.get(node.name), allocatable(node.status.allocatable)
        if found is None or found.timestamp is None or not timedelta(0) <= self.now - found.timestamp <= OLDEST:
            return None
        used = amounts(found.usage)
        if not all(size.get(name) and name in used for name in ("cpu", "memory")):
            return None
        return Utilisation(100 * used["cpu"] / size["cpu"], 100 * used["memory"] / size["memory"])

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        uses = ((node.uid, self.of(node)) for node in nodes)
        return [uid for uid, used in uses if used is not None and used.below(policy)]


class UsageObserver:
    controller = "nodegroups"

    def __init__(
        self, measured: Measured, client: Client, clock: Clock, *, interval: timedelta, cluster_key: Key
    ) -> None:
        self._measured = measured
        self._client = client
        self._clock = clock
        self._interval = interval
        self._cluster_key = cluster_key
        self._told = ""  # what was last said of it: once, not at every look

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:
        while True:
            if leading() and not view.stale and len(view[NODE_GROUPS]):
                await self.look()
                look_at(self._cluster_key)
            await self._clock.sleep(self._interval.total_seconds())

    async def look(self) -> None:
        try:
            listed = decode(await self._client.read(PATH), NodeMetricsList)
        except (KubeError, DecodeError) as error:
            if str(error) != self._told:
                log.warning("the use of nodes cannot be read: is metrics-server installed?", error=str(error))
                self._told = str(error)
            return  # the last measurements stay, and grow older
        self._told = ""
        self._measured.nodes = {item.metadata.name: item for item in listed.items}
