"""VPSie's lists lag behind its deeds. What was done a moment ago is remembered until they would surely show it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.providers.protocol import Machine
from plimsoll.runtime.clock import Clock

# Nobody promises a bound. A second machine costs more than two minutes of waiting.
LISTED_SECONDS = 120.0
# VPSie said yes and named no machine: it makes them in its own time.
NAMED_SECONDS = 900.0


class Known(Struct, frozen=True):
    """A machine that VPSie has told us of, in an answer or in a list."""

    machine: Machine
    since: float

    @property
    def listed_from(self) -> float:
        """From then on it is in every list, or gone."""
        return self.since + (LISTED_SECONDS if self.machine.id else NAMED_SECONDS)


class Lag:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Known] = {}  # by key
        self._unanswered: dict[str, float] = {}  # by key: until when a machine may turn up
        self._deleted: dict[str, float] = {}  # by id: when
        self._refused: dict[str, datetime] = {}  # by key: when VPSie last said no to this process

    def ordered(self, machine: Machine) -> None:
        self._unanswered.pop(machine.key, None)
        self._known[machine.key] = Known(machine, self._clock.monotonic())

    def deleted(self, machine_id: str) -> None:
        self._deleted[machine_id] = self._clock.monotonic()

    def unanswered(self, key: str, seconds: float = LISTED_SECONDS) -> None:
        """Nobody knows whether it was ordered. Said again, it changes nothing."""
        self._unanswered.setdefault(key, self._clock.monotonic() + seconds)

    def asked_before(self, key: str, at: datetime) -> None:
        """Someone asked then. Unless it was we, and VPSie said no, a machine may turn up."""
        if key in self._refused and self._refused[key] >= at:
            return
        # From here on by our own monotonic clock: another machine's may be wrong by hours.
        passed = (self._clock.now() - at).total_seconds()
        self.unanswered(key, min(LISTED_SECONDS, LISTED_SECONDS - passed))

    def answered(self, key: str) -> None:
        self._unanswered.pop(key, None)

    def refused(self, key: str) -> None:
        now = self._clock.now()
        soon = now - timedelta(seconds=LISTED_SECONDS)
        self._refused = {known: at for known, at in self._refused.items() if at > soon} | {key: now}

    def unanswered_seconds_left(self, key: str) -> float:
        """How long a machine of an order without an answer may still turn up."""
        return max(0.0, self._unanswered.get(key, 0.0) - self._clock.monotonic())

    def applied_to(self, shown: Iterable[Machine]) -> list[Machine]:
        """A list with what it does not show yet, and without what it should not show any more.

        The servers that answer need not agree: what one of them has shown, the next may not know yet.
        """
        now = self._clock.monotonic()
        self._deleted = {machine_id: at for machine_id, at in self._deleted.items() if now < at + NAMED_SECONDS}
        machines = []
        seen = set()
        for machine in shown:
            if machine.id in self._deleted:
                machines.append(replace(machine, state="deleting"))
                continue
            machines.append(machine)
            seen.add(machine.key)
            before = self._known.get(machine.key)
            self._known[machine.key] = Known(machine, before.since if before else now)
        self._known = {
            key: known
            for key, known in self._known.items()
            if key in seen or (now < known.listed_from and known.machine.id not in self._deleted)
        }
        return [*machines, *(known.machine for key, known in self._known.items() if key not in seen)]
