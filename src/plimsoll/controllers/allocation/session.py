"""A session holds the lease of one node. This module defines its task and the states that `protocol.py` moves through."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.plan import Assignment, Plan, RestoreRequest, Unserved
from plimsoll.controllers.allocation.types import Clusters, WekaContainer
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.lease_observation import LeaseObservation
from plimsoll.runtime.decision import Blocker, Event, Ref
from plimsoll.runtime.transaction import End

# Writes that are sent together. After each batch the session checks its deadline.
BATCH = 32


class Task(Struct, frozen=True):
    """The input of a session, fixed before the first request. The session reads current state live."""

    node: str
    inventory: Inventory | None  # None if it is invalid: no drives are allocated
    lease_namespace: str
    lease_name: str
    identity: str  # holder identity: namespace/name of the first container served
    process: str  # the nonce of this process
    turn: tuple[str, ...] = ()  # UIDs in serving order
    held_back: frozenset[str] = frozenset()  # UIDs in back-off after a shortage
    running: frozenset[str] = frozenset()  # UIDs of containers with a pod on this node
    ports_per_container: int = 100
    labels: tuple[tuple[str, str], ...] = ()  # of the node
    clusters: Clusters = ()
    times: LeaseTimes = LeaseTimes()
    observation: LeaseObservation | None = None
    restore: RestoreRequest | None = None  # set: restore this allocation and serve nobody else


class Session(Struct, frozen=True):
    """A lease that this process acquired."""

    task: Task
    lease: Ref  # uid and resourceVersion of the acquiring write
    nonce: str
    since: float  # when the acquiring write was sent, by our clock
    recorded: frozenset[str] = frozenset()  # ids of containers that had an allocation, from the lease
    holders: frozenset[str] | None = None  # ids to record on release; None before the containers are listed
    failure: Event | None = None  # the first write that the server rejected; retrying at once would not help

    @property
    def epoch(self) -> str:
        return self.lease.resource_version


class Starting(Struct, frozen=True):
    task: Task


class ReadingLease(Struct, frozen=True):
    """Reading the lease to see who holds it."""

    task: Task
    nonce: str


class AcquiringLease(Struct, frozen=True):
    task: Task
    nonce: str
    since: float
    first: bool  # the lease did not exist and is being created


class ConfirmingLease(Struct, frozen=True):
    """The reply to the acquiring write was lost: read the lease to see whether it is ours."""

    task: Task
    nonce: str
    since: float


class ListingContainers(Struct, frozen=True):
    session: Session


class RecheckingLease(Struct, frozen=True):
    """Some proposals are newer than this session: either it lost the lease, or the cluster was restored from a backup."""

    session: Session
    containers: tuple[WekaContainer, ...]


class ClearingStale(Struct, frozen=True):
    session: Session
    containers: tuple[WekaContainer, ...]
    stale: tuple[WekaContainer, ...]  # the first BATCH are being cleared


class Proposing(Struct, frozen=True):
    session: Session
    plan: Plan
    rest: tuple[Assignment, ...]  # the first BATCH are being proposed
    proposed: tuple[Assignment, ...] = ()  # with the container as the server returned it


class VerifyingLease(Struct, frozen=True):
    session: Session
    plan: Plan
    proposed: tuple[Assignment, ...]


class Committing(Struct, frozen=True):
    session: Session
    plan: Plan
    rest: tuple[Assignment, ...]
    committed: int = 0


class ReleasingLease(Struct, frozen=True):
    session: Session
    end: End
    plan: Plan = Plan()
    lost: frozenset[str] = frozenset()


class Ended(Struct, frozen=True):
    task: Task
    observation: LeaseObservation | None = None
    unserved: tuple[Unserved, ...] = ()
    blocker: Blocker | None = None  # why the lease could not be acquired
    lost: frozenset[str] = frozenset()  # UIDs of containers that lost their allocation


State: TypeAlias = (
    Starting
    | ReadingLease
    | AcquiringLease
    | ConfirmingLease
    | ListingContainers
    | RecheckingLease
    | ClearingStale
    | Proposing
    | VerifyingLease
    | Committing
    | ReleasingLease
    | Ended
)
