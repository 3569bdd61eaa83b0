"""VPSie's lists lag behind its deeds. What was done a moment ago is remembered until they would surely show it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.clock import Clock
from plimsoll.providers.provider import Machine

# Nobody promises a bound. A second machine costs more than two minutes of waiting.
LISTED_SECONDS = 120.0
# VPSie said yes and named no machine: it makes them in its own time.
NAMED_SECONDS = 900.0


class Ordered(Struct, frozen=True):
    machine: Machine
    at: float

    @property
    def until(self) -> float:
        return self.at + (LISTED_SECONDS if self.machine.id else NAMED_SECONDS)


class Lag:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ordered: dict[str, Ordered] = {}  # by key: VPSie said yes
        self._unanswered: dict[str, float] = {}  # by key: until when a machine may turn up
        self._deleted: dict[str, float] = {}  # by id: when

    def ordered(self, machine: Machine) -> None:
        self._unanswered.pop(machine.key, None)
        self._ordered[machine.key] = Ordered(machine, self._clock.monotonic())

    def deleted(self, machine_id: str) -> None:
        self._deleted[machine_id] = self._clock.monotonic()
        self._ordered = {key: it for key, it in self._ordered.items() if it.machine.id != machine_id}

    def unanswered(self, key: str, seconds: float = LISTED_SECONDS) -> None:
        """Nobody knows whether it was ordered. Said again, it changes nothing."""
        self._unanswered.setdefault(key, self._clock.monotonic() + seconds)

    def answered(self, key: str) -> None:
        self._unanswered.pop(key, None)

    def unanswered_seconds_left(self, key: str) -> float:
        """How long a machine of an order without an answer may still turn up."""
        return max(0.0, self._unanswered.get(key, 0.0) - self._clock.monotonic())

    def applied_to(self, shown: Iterable[Machine]) -> list[Machine]:
        """A list with what it does not show yet, and without what it should not show any more."""
        now = self._clock.monotonic()
        self._ordered = {key: it for key, it in self._ordered.items() if now < it.until}
        self._deleted = {machine_id: at for machine_id, at in self._deleted.items() if now < at + NAMED_SECONDS}
        machines = []
        for machine in shown:
            if machine.id in self._deleted:
                machines.append(replace(machine, state="deleting"))
                continue
            machines.append(machine)
            if known := self._ordered.get(machine.key):
                # The next list may come from a server that knows less than this one.
                self._ordered[machine.key] = Ordered(machine, known.at)
        seen = {machine.key for machine in machines}
        return [*machines, *(it.machine for key, it in self._ordered.items() if key not in seen)]
