"""How much of a node its pods ask for, and since when that has been little, without a break."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from plimsoll.nodegroups.types import ScaleDownPolicy
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


class Use(NamedTuple):
    utilisation: Utilisation | None  # None where nothing is known: then nothing is concluded
    low: bool


def utilisation_by_name(snapshot: Snapshot) -> dict[str, Utilisation]:
    """Of every node that says how much it has: what its pods request, as the packing engine counts it."""
    cpu, memory = (_percentages(snapshot, resource) for resource in (0, 1))
    return {
        name: Utilisation(cpu[row], memory[row])
        for name, row in snapshot.rows.items()
        if cpu[row] >= 0 and memory[row] >= 0
    }


def _percentages(snapshot: Snapshot, resource: int) -> list[float]:
    """By row, of one of the resources that are on every node; -1 where the node has none of it."""
    capacity = snapshot.capacity[resource].tolist()
    return [
        100 * used / size if size > 0 else -1.0
        for used, size in zip(snapshot.used[resource].tolist(), capacity, strict=True)
    ]


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
