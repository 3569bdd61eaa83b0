"""How much of a node its pods ask for, and since when that has been little, without a break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.controllers.nodegroups.types import ScaleDownPolicy
from plimsoll.kube.types.core import Node
from plimsoll.scheduling.snapshot import Snapshot

# A look this much after the last one has missed what was in between: what was low at both may have been high meanwhile.
LONGEST_GAP = timedelta(minutes=2)


class Utilisation(Struct, frozen=True):
    """In percent of what the node can give to pods."""

    cpu: float
    memory: float

    @property
    def highest(self) -> float:
        return max(self.cpu, self.memory)

    def below(self, policy: ScaleDownPolicy) -> bool:
        return self.cpu < policy.cpu_threshold and self.memory < policy.memory_threshold

    def __str__(self) -> str:
        return f"{self.cpu:.0f} % of CPU and {self.memory:.0f} % of memory requested"


class Used(Protocol):
    """What each node's pods use, by whatever measure."""

    def of(self, node: Node) -> Utilisation | None:
        """None where nothing is known: then nothing is concluded."""
        ...

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        """The UIDs of those that are little used."""
        ...


class Requested:
    """What the pods of each node request, as the packing engine counts it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows = snapshot.rows
        self._cpu, self._memory = (_percentages(snapshot, resource) for resource in (0, 1))

    def of(self, node: Node) -> Utilisation | None:
        row = self._rows.get(node.name)
        if row is None or self._cpu[row] < 0 or self._memory[row] < 0:
            return None
        return Utilisation(float(self._cpu[row]), float(self._memory[row]))

    def low(self, nodes: Iterable[Node], policy: ScaleDownPolicy) -> list[str]:
        cpu, memory = self._cpu, self._memory
        low = (cpu >= 0) & (cpu < policy.cpu_threshold) & (memory >= 0) & (memory < policy.memory_threshold)
        if not low.any():
            return []
        rows, is_low = self._rows, low.tolist()
        metas = (node.metadata for node in nodes)
        return [meta.uid for meta in metas if (row := rows.get(meta.name)) is not None and is_low[row]]


def _percentages(snapshot: Snapshot, resource: int) -> NDArray[np.float64]:
    """By row, of one of the resources that are on every node; -1 where the node has none of it."""
    capacity = snapshot.capacity[resource]
    return np.where(capacity > 0, 100 * snapshot.used[resource] / np.maximum(capacity, 1), -1.0)


class LowSince:
    """Since when each node has been little used, as far as this process has seen. A restart starts anew: nobody watched."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}  # by the Node's UID
        self._looked: datetime | None = None

    def look(self, low: Iterable[str], now: datetime) -> Mapping[str, datetime]:
        """The UIDs of all nodes that are little used now; returns since when each is."""
        gap = self._looked is None or not timedelta(0) <= now - self._looked <= LONGEST_GAP
        before = {} if gap else self._since
        self._since = {uid: before.get(uid, now) for uid in low}
        self._looked = now
        return dict(self._since)
