"""What the page is told, as data. The JSON of `/api/v1/picture` is these structs, field by field.

Only what a view of the page shows stands here: no labels, no annotations, no environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from plimsoll.controllers.nodegroups.scale_up.expected_node import Awaited

NodeState = Literal["ready", "not-ready", "cordoned", "draining", "leaving", "coming"]
PodState = Literal["r", "s", "t", "f"]  # ready, starting, terminating, failed or finished
# Its name, the key of its workload, its state; and the class it was meant for where its node has the other one.
PodCell = tuple[str, str, str] | tuple[str, str, str, str]


class NodeRecord(Struct, frozen=True, rename="camel"):
    zone: str
    group: str
    capacity_class: str = field(name="class")
    state: NodeState
    cpu: tuple[int, int]  # requested and allocatable, in thousandths of a core
    memory: tuple[int, int]  # in bytes
    pods: list[PodCell]


class Share(Struct, frozen=True, rename="camel"):
    spot: int
    on_demand: int


class Obstacle(Struct, frozen=True, rename="camel", omit_defaults=True):
    code: str
    words: str
    until: datetime | None = None


class WorkloadRecord(Struct, frozen=True, rename="camel"):
    target: Share | None
    current: Share | None
    action: str
    why: str
    blockers: list[Obstacle]
    errors: list[str]
    # Who leaves first: pod, zone, node, cost. The first few; the whole order is what `explain` tells.
    deletion_order: list[tuple[str, str, str, int | None]] | None
    replicas: int  # how many the whole order has


# When, how many there are, are ready, are wanted; and what they cost an hour, where the provider tells prices.
Point = tuple[int, int, int, int | None] | tuple[int, int, int, int | None, float]


class GroupRecord(Struct, frozen=True, rename="camel"):
    min: int | None
    max: int | None
    desired: int | None
    current: int
    ready: int
    capacity_class: str = field(name="class")
    price_per_hour: float | None  # of the nodes that there are, in the provider's currency
    offerings: list[str]
    why: str
    blockers: list[Obstacle]
    history: list[Point] | UnsetType = UNSET  # in a whole picture
    point: Point | UnsetType = UNSET  # in a change: the newest of the history


class Refusal(Struct, frozen=True, rename="camel"):
    group: str
    why: str


class PendingRecord(Struct, frozen=True, rename="camel"):
    since: datetime | None
    why: str
    awaits: Awaited | None  # the node that is ordered for it, or about to be
    tried: list[Refusal]


class DriveRecord(Struct, frozen=True, rename="camel"):
    device: str
    container: str | None
    state: str  # free, blocked, committed, proposed, leaving


class PortsRecord(Struct, frozen=True, rename="camel"):
    first: int = field(name="from")
    last: int = field(name="to")
    container: str


class AllocationRecord(Struct, frozen=True, rename="camel"):
    drives: list[DriveRecord]
    ports: list[PortsRecord]
    waiting: list[str]  # containers that have not got what they asked for
    problems: list[str]


class DecisionRecord(Struct, frozen=True, rename="camel"):
    at: datetime
    controller: str
    object: str
    action: str
    why: str
    result: str


class OperatorRecord(Struct, frozen=True, rename="camel"):
    identity: str
    leader: bool
    read_only: bool
    controllers: tuple[str, ...]
    version: str


class PictureRecord(Struct, frozen=True, rename="camel"):
    """Everything, or what has changed: the records of each section by name, None for one that is gone."""

    version: int
    at: datetime
    whole: bool
    operator: OperatorRecord
    nodes: Mapping[str, Raw | None]
    workloads: Mapping[str, Raw | None]
    groups: Mapping[str, Raw | None]
    pending: Mapping[str, Raw | None]
    allocations: Mapping[str, Raw | None]
    decisions: list[DecisionRecord]
