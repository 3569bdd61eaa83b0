"""The base class of invariants. Each invariant overrides the callbacks it needs; the checker calls only those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.invariants.observed import ObservedState
from plimsoll.simulate.invariants.request import OperatorRequest


class Violation(Struct, frozen=True, rename="camel"):
    """A recorded violation of an invariant."""

    rule: str  # S4, S5, …
    at: datetime
    what: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.rule}: {self.what}"


class Invariant:
    """Receives the operator's requests, object changes, and machine orders."""

    watched_kinds: ClassVar[
        tuple[tuple[str, str], ...]
    ] = ()  # group and plural of the objects whose changes it receives

    def __init__(self, observed: ObservedState, violated: Callable[[str, str], None]) -> None:
        """violated: records a violation, given the invariant's id (S4) and a description."""
        self.observed = observed
        self.violated = violated

    @property
    def now(self) -> datetime:
        return self.observed.clock.now()

    def request_received(self, call: OperatorRequest) -> None:
        """The API server received a request and has not handled it yet."""

    def response_sent(self, call: OperatorRequest, status: int) -> None:
        """The API server answered the request; its changes are stored."""

    def evicted(self, pod: Json, call: OperatorRequest) -> None:
        """The API server accepted an eviction. `pod` is the pod before the eviction."""

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:
        """An object changed. `call` is the operator's request that caused it, None for every other writer."""

    def machine_ordered(self, who: str, request: MachineRequest) -> None:
        """The operator orders a machine at the cloud."""

    def machine_deleted(self, who: str, machine_id: str) -> None:
        """The operator deletes a machine at the cloud."""

    def reply_received(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None:
        """An operator process received a reply; status 0: the reply was lost."""
