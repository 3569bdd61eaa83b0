"""How much of a node its pods ask for, and since when that has been little, without a break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.kube.types import Node, Pod
from plimsoll.nodegroups.types import NodeGroup
from plimsoll.scheduling.requests import allocatable, effective_requests

# A look this much after the last one has missed what was in between: what was low at both may have been high meanwhile.
LONGEST_GAP = timedelta(minutes=2)


class Utilisation(Struct, frozen=True):
    """In percent of what the node can give to pods."""

    cpu: float
    memory: float

    @property
    def highest(self) -> float:
        return max(self.cpu, self.memory)

    def below(self, group: NodeGroup) -> bool:
        policy = group.spec.scale_down_policy
        return self.cpu < policy.cpu_threshold and self.memory < policy.memory_threshold

    def __str__(self) -> str:
        return f"{self.cpu:.0f} % of CPU and {self.memory:.0f} % of memory requested"


def utilisation_of(node: Node, pods: Iterable[Pod]) -> Utilisation | None:
    """None where the node does not say how much it has: nothing is concluded from that."""
    size = allocatable(node.status.allocatable)
    if not size.get("cpu") or not size.get("memory"):
        return None
    cpu = memory = 0
    for pod in pods:
        if not pod.finished:
            wanted = effective_requests(pod.spec)
            cpu += wanted.get("cpu", 0)
            memory += wanted.get("memory", 0)
    return Utilisation(100 * cpu / size["cpu"], 100 * memory / size["memory"])


class LowSince:
    """Since when each node has been little used, as far as this process has seen. A restart starts anew: nobody watched."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}  # by the Node's UID
        self._looked: datetime | None = None

    def look(self, low: Mapping[str, bool], now: datetime) -> Mapping[str, datetime]:
        """All nodes as they are now, by UID; returns those that are little used, with since when."""
        gap = self._looked is None or not timedelta(0) <= now - self._looked <= LONGEST_GAP
        self._since = {uid: now if gap else self._since.get(uid, now) for uid, is_low in low.items() if is_low}
        self._looked = now
        return dict(self._since)
