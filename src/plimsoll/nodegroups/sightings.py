"""What providers said when they were last asked: which machines there are, and what is sold.

A sighting is whole, and knows when its question was sent: what happened after that it does not show. Nothing is destroyed on an old
one, nor on none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.providers.provider import Capabilities, Machine, Offering


class Sighting(Struct, frozen=True):
    asked_at: datetime
    machines: Mapping[str, Machine]  # by id
    offerings: Mapping[str, tuple[Offering, ...]] = field(default_factory=dict)  # by datacenter
    capabilities: Capabilities = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)

    @classmethod
    def of(
        cls,
        asked_at: datetime,
        machines: Iterable[Machine] = (),
        offerings: Mapping[str, tuple[Offering, ...]] | None = None,
        capabilities: Capabilities | None = None,
    ) -> Sighting:
        by_id = {machine.id: machine for machine in machines}
        default = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)
        return cls(asked_at, by_id, offerings or {}, capabilities or default)

    def by_key(self, key: str) -> Machine | None:
        return next((machine for machine in self.machines.values() if machine.key == key), None)

    def offering(self, datacenter: str, offering_id: str) -> Offering | None:
        return next((one for one in self.offerings.get(datacenter, ()) if one.id == offering_id), None)

    def is_fresh(self, now: datetime, limit: timedelta) -> bool:
        return now - self.asked_at <= limit


class Sightings:
    """The last of each provider; written by the observer, read by decisions."""

    def __init__(self) -> None:
        self._last: dict[str, Sighting] = {}
        self._trouble: dict[str, str] = {}

    def enter(self, provider: str, sighting: Sighting) -> bool:
        """Whether it says anything new."""
        before = self._last.get(provider)
        self._last[provider] = sighting
        news = before is None or replace(before, asked_at=sighting.asked_at) != sighting
        return self._trouble.pop(provider, None) is not None or news

    def failed(self, provider: str, why: str) -> None:
        """The last sighting stays, and grows older."""
        self._trouble[provider] = why

    def of(self, provider: str) -> Sighting | None:
        return self._last.get(provider)

    def trouble(self, provider: str) -> str:
        return self._trouble.get(provider, "it was not asked yet")
