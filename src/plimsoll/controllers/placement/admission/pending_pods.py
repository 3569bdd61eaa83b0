"""Pods that were admitted and that the view does not show yet, by the token that each carries.

An API server asks many times within the few milliseconds that a view lags behind; without this memory, every one of those
questions would get the answer of the first.
"""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.annotations import Why
from plimsoll.controllers.placement.target import CapacityClass

# Far beyond any lag of a view that still passes for live, and short enough that creations which were refused after we
# had admitted them (a quota, another webhook) do not count for long.
KEPT_SECONDS = 60.0


class Admitted(Struct, frozen=True):
    """One answer that was given."""

    token: str
    owner_uid: str
    capacity_class: CapacityClass
    why: Why
    at_seconds: float  # monotonic


class Pending(Struct):
    """How many of one owner's pods are under way, by class."""

    spot: int = 0
    on_demand: int = 0

    @property
    def total(self) -> int:
        return self.spot + self.on_demand


_NONE = Pending()


class AdmissionLedger:
    """Entries in the order in which they were made; both mappings below keep it."""

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._entries: dict[str, Admitted] = {}
        self._by_owner: dict[str, dict[str, Admitted]] = {}
        self._counts: dict[str, Pending] = {}
        self.expired = 0  # entries whose pod never came into view
        self.dropped = 0  # entries that cannot be under way any more, because their owner asks for others instead

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, entry: Admitted) -> None:
        self._entries[entry.token] = entry
        self._by_owner.setdefault(entry.owner_uid, {})[entry.token] = entry
        counts = self._counts.setdefault(entry.owner_uid, Pending())
        if entry.capacity_class is CapacityClass.SPOT:
            counts.spot += 1
        else:
            counts.on_demand += 1

    def find(self, token: str, owner_uid: str) -> Admitted | None:
        """The answer that a pod of this owner was given, if it is still on its way."""
        entry = self._entries.get(token)
        return entry if entry is not None and entry.owner_uid == owner_uid else None

    def pending(self, owner_uid: str) -> Pending:
        return self._counts.get(owner_uid, _NONE)

    def arrived(self, token: str) -> None:
        """The pod is in view, and counted there from now on."""
        self._remove(token)

    def drop_oldest(self, owner_uid: str, how_many: int) -> None:
        """Forget entries that cannot be under way any more.

        A ReplicaSet creates pods in batches, and starts one only when every request of the last one has ended: what is
        still under way is always the newest.
        """
        for token in list(self._by_owner.get(owner_uid, ()))[: max(0, how_many)]:
            self._remove(token)
            self.dropped += 1

    def expire(self, now_seconds: float) -> None:
        while self._entries:
            token, entry = next(iter(self._entries.items()))
            if now_seconds - entry.at_seconds < self._kept_seconds:
                return
            self._remove(token)
            self.expired += 1

    def _remove(self, token: str) -> None:
        entry = self._entries.pop(token, None)
        if entry is None:
            return
        siblings, counts = self._by_owner[entry.owner_uid], self._counts[entry.owner_uid]
        del siblings[token]
        if entry.capacity_class is CapacityClass.SPOT:
            counts.spot -= 1
        else:
            counts.on_demand -= 1
        if not siblings:
            del self._by_owner[entry.owner_uid], self._counts[entry.owner_uid]
