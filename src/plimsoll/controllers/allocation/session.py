"""What a tenure on a node is for, and how far it has come: the states between which `protocol.py` moves."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.lease import Sighting
from plimsoll.controllers.allocation.plan import Assignment, Given, Plan, Refusal
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.runtime.decision import Event, Ref
from plimsoll.runtime.transaction import End

# So many writes are under way together: after each batch the clock is looked at, and whether the tenure goes on.
BATCH = 32


class Task(Struct, frozen=True):
    """What a tenure is for. It is fixed before the first request; what is true is read live."""

    node: str
    inventory: Inventory | None  # None: it cannot be read, so no drives are given out
    lease_namespace: str
    lease_name: str
    identity: str  # namespace/name of the container that opens the tenure
    process: str  # the nonce of this process
    turn: tuple[str, ...] = ()  # UIDs in the order in which they are served
    held_back: frozenset[str] = frozenset()  # UIDs that wait until something is freed
    running: frozenset[str] = frozenset()  # UIDs of containers whose pod runs on this node
    ports_per_container: int = 100
    times: LeaseTimes = LeaseTimes()
    sighting: Sighting | None = None
    given: Given | None = None  # a tenure that restores this, and does nothing else


class Tenure(Struct, frozen=True):
    """A lease that was taken, and what follows from it."""

    task: Task
    lease: Ref  # uid and resourceVersion as of the acquiring write
    nonce: str
    since: float  # when the lease was asked for, by our own clock
    failure: Event | None = None  # of a write that the server will not take: asked again at once, it would be the same

    @property
    def epoch(self) -> str:
        return self.lease.resource_version


class Opening(Struct, frozen=True):
    task: Task


class Looking(Struct, frozen=True):
    """Who holds the lease?"""

    task: Task
    nonce: str


class Taking(Struct, frozen=True):
    task: Task
    nonce: str
    since: float
    first: bool  # there was no lease, and one is being made


class FindingOut(Struct, frozen=True):
    """The reply to the acquiring write is lost: is the lease ours?"""

    task: Task
    nonce: str
    since: float


class Listing(Struct, frozen=True):
    tenure: Tenure


class Doubting(Struct, frozen=True):
    """Proposals that are not older than this tenure: either it is over, or the cluster was restored from a backup."""

    tenure: Tenure
    containers: tuple[WekaContainer, ...]


class Clearing(Struct, frozen=True):
    tenure: Tenure
    containers: tuple[WekaContainer, ...]
    stale: tuple[WekaContainer, ...]  # the first BATCH of them are being cleared


class Proposing(Struct, frozen=True):
    tenure: Tenure
    plan: Plan
    rest: tuple[Assignment, ...]  # the first BATCH of them are being proposed
    proposed: tuple[Assignment, ...] = ()  # with the container as the proposal left it


class Verifying(Struct, frozen=True):
    tenure: Tenure
    plan: Plan
    proposed: tuple[Assignment, ...]


class Committing(Struct, frozen=True):
    tenure: Tenure
    plan: Plan
    rest: tuple[Assignment, ...]
    committed: int = 0


class Releasing(Struct, frozen=True):
    tenure: Tenure
    end: End
    plan: Plan = Plan()


class Ended(Struct, frozen=True):
    task: Task
    sighting: Sighting | None = None
    refusals: tuple[Refusal, ...] = ()


State: TypeAlias = (
    Opening
    | Looking
    | Taking
    | FindingOut
    | Listing
    | Doubting
    | Clearing
    | Proposing
    | Verifying
    | Committing
    | Releasing
    | Ended
)
