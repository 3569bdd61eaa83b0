"""What a rule may listen to. Each rule overrides what it needs; nobody else is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.invariants.observed import Sight
from plimsoll.simulate.invariants.request import Call


class Violation(Struct, frozen=True, rename="camel"):
    """Something that must never happen, and did."""

    rule: str  # S4, S5, …
    at: datetime
    what: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.rule}: {self.what}"


class Rule:
    """Listens to calls of the operator, to changes of objects, and to orders at the cloud."""

    sees: ClassVar[tuple[tuple[str, str], ...]] = ()  # group and plural of the objects whose changes it looks at

    def __init__(self, sight: Sight, broken: Callable[[str, str], None]) -> None:
        """broken: takes the rule's name and what was done against it."""
        self.sight = sight
        self.broken = broken

    @property
    def now(self) -> datetime:
        return self.sight.clock.now()

    def asked(self, call: Call) -> None:
        """A call arrives; nothing has come of it yet."""

    def answered(self, call: Call, status: int) -> None:
        """It was answered; what it has changed is changed."""

    def evicted(self, pod: Json, call: Call) -> None:
        """The server lets a pod go; the pod as it was before."""

    def changed(self, change: Change, call: Call | None) -> None:
        """An object is another now; by a call of the operator, or by someone else (None)."""

    def bought(self, who: str, request: MachineRequest) -> None:
        """A machine is ordered."""

    def given_back(self, who: str, machine_id: str) -> None:
        """A machine is given back."""

    def heard(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None:
        """What a process of the operator has got as an answer; 0: none."""
