"""Recent orders and deletions, applied to VPSie's lists, which lag behind them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.providers.protocol import Machine
from plimsoll.runtime.clock import Clock

# VPSie documents no limit. A second machine costs more than two minutes of waiting.
LISTED_SECONDS = 120.0
# For an order that VPSie accepted without naming the machine.
NAMED_SECONDS = 900.0


class KnownMachine(Struct, frozen=True):
    """A machine from a reply or a list."""

    machine: Machine
    since: float

    @property
    def listed_from(self) -> float:
        """When every list contains it, unless it does not exist any more."""
        return self.since + (LISTED_SECONDS if self.machine.id else NAMED_SECONDS)


class RecentChanges:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, KnownMachine] = {}  # by key
        self._unanswered: dict[str, float] = {}  # by key: until when a machine may turn up
        self._deleted: dict[str, float] = {}  # by id: when
        self._refused: dict[str, datetime] = {}  # by key: when VPSie last said no to this process

    def ordered(self, machine: Machine) -> None:
        self._unanswered.pop(machine.key, None)
        self._known[machine.key] = KnownMachine(machine, self._clock.monotonic())

    def deleted(self, machine_id: str) -> None:
        self._deleted[machine_id] = self._clock.monotonic()

    def unanswered(self, key: str, seconds: float = LISTED_SECONDS) -> None:
        """It is not known whether the machine was ordered. Idempotent."""
        self._unanswered.setdefault(key, self._clock.monotonic() + seconds)

    def asked_before(self, key: str, at: datetime) -> None:
        """The key was used at `at`. A machine may appear, unless VPSie refused that request to this process."""
        if key in self._refused and self._refused[key] >= at:
            return
        # Measured on our monotonic clock from here on: the other process's clock may be wrong.
        passed = (self._clock.now() - at).total_seconds()
        self.unanswered(key, min(LISTED_SECONDS, LISTED_SECONDS - passed))

    def answered(self, key: str) -> None:
        self._unanswered.pop(key, None)

    def refused(self, key: str) -> None:
        now = self._clock.now()
        soon = now - timedelta(seconds=LISTED_SECONDS)
        self._refused = {known: at for known, at in self._refused.items() if at > soon} | {key: now}

    def unanswered_seconds_left(self, key: str) -> float:
        """How long the machine of an unanswered order may still appear."""
        return max(0.0, self._unanswered.get(key, 0.0) - self._clock.monotonic())

    def applied_to(self, shown: Iterable[Machine]) -> list[Machine]:
        """A list completed by recent orders, with recent deletions marked.

        VPSie's servers need not agree: a machine that one of them listed may be missing from the next list.
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
            self._known[machine.key] = KnownMachine(machine, before.since if before else now)
        self._known = {
            key: known
            for key, known in self._known.items()
            if key in seen or (now < known.listed_from and known.machine.id not in self._deleted)
        }
        return [*machines, *(known.machine for key, known in self._known.items() if key not in seen)]
