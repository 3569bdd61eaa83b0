"""The admission ledger: pods that were admitted and that the view does not show yet, by their tokens.

The API server sends many requests within the few milliseconds that the view lags behind; without the ledger all of them would
get the same class.
"""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.controllers.placement.target import CapacityClass

# Far beyond the lag of a live view, and short enough that pods which were refused after admission (by a quota or another
# webhook) do not count for long.
KEPT_SECONDS = 60.0


class AdmittedPodEntry(Struct, frozen=True):
    """One admission."""

    token: str
    owner_uid: str
    capacity_class: CapacityClass
    why: PlacementReason
    at_seconds: float  # monotonic
    pod_name: str = ""  # known for pods of StatefulSets only


class PendingCounts(Struct):
    """How many admitted pods of one owner are not in view yet, by class."""

    spot: int = 0
    on_demand: int = 0

    @property
    def total(self) -> int:
        return self.spot + self.on_demand


_NONE = PendingCounts()


class AdmissionLedger:
    """Admissions in the order in which they happened; both mappings keep that order."""

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._entries: dict[str, AdmittedPodEntry] = {}
        self._by_owner: dict[str, dict[str, AdmittedPodEntry]] = {}
        self._counts: dict[str, PendingCounts] = {}
        self.expired = 0  # entries whose pod never came into view
        self.dropped = 0  # entries whose pod was refused after admission: the owner creates another instead

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, entry: AdmittedPodEntry) -> None:
        if entry.pod_name:  # created again under its name: the earlier one was refused after admission
            for earlier in self.entries(entry.owner_uid):
                if earlier.pod_name == entry.pod_name:
                    self._remove(earlier.token)
                    self.dropped += 1
        self._entries[entry.token] = entry
        self._by_owner.setdefault(entry.owner_uid, {})[entry.token] = entry
        counts = self._counts.setdefault(entry.owner_uid, PendingCounts())
        if entry.capacity_class is CapacityClass.SPOT:
            counts.spot += 1
        else:
            counts.on_demand += 1

    def find(self, token: str, owner_uid: str) -> AdmittedPodEntry | None:
        """The admission with this token, if its pod is not in view yet."""
        entry = self._entries.get(token)
        return entry if entry is not None and entry.owner_uid == owner_uid else None

    def entries(self, owner_uid: str) -> tuple[AdmittedPodEntry, ...]:
        """The admissions of one owner whose pods are not in view yet."""
        return tuple(self._by_owner.get(owner_uid, {}).values())

    def pending(self, owner_uid: str) -> PendingCounts:
        return self._counts.get(owner_uid, _NONE)

    def arrived(self, token: str) -> None:
        """The pod is in view and counts there from now on."""
        self._remove(token)

    def drop_oldest(self, owner_uid: str, how_many: int) -> None:
        """Drop entries whose pods cannot arrive any more.

        The ReplicaSet controller creates pods in batches and starts a batch only after every request of the last one has
        ended, so pods that may still arrive are always the newest.
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
