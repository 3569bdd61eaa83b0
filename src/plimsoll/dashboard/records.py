"""The records that the page receives. The JSON of `/api/v1/snapshot` is these structs, field by field.

They hold only what the page shows: no labels, annotations or environment variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from plimsoll.controllers.nodegroups.scale_up.expected_node import ExpectedNode

NodeState = Literal["ready", "not-ready", "cordoned", "draining", "leaving", "coming"]
PodState = Literal["r", "s", "t", "f"]  # ready, starting, terminating, failed or finished
# Pod name, workload key, state; and the pod's assigned class if its node has another one.
PodCell = tuple[str, str, str] | tuple[str, str, str, str]


class NodeRecord(Struct, frozen=True, rename="camel"):
    zone: str
    group: str
    capacity_class: str = field(name="class")
    state: NodeState
    cpu: tuple[int, int]  # requested and allocatable, in millicores
    memory: tuple[int, int]  # in bytes
    pods: list[PodCell]


class ClassCounts(Struct, frozen=True, rename="camel"):
    spot: int
    on_demand: int


class BlockerRecord(Struct, frozen=True, rename="camel", omit_defaults=True):
    code: str
    words: str
    until: datetime | None = None


class WorkloadRecord(Struct, frozen=True, rename="camel"):
    target: ClassCounts | None
    current: ClassCounts | None
    action: str
    why: str
    blockers: list[BlockerRecord]
    errors: list[str]
    # The first pods of the deletion order: pod, zone, node, cost. `explain` shows the whole order.
    deletion_order: list[tuple[str, str, str, int | None]] | None
    replicas: int  # length of the whole deletion order


# Time, current, ready, desired; and the price per hour if the provider reports prices.
SizePoint = tuple[int, int, int, int | None] | tuple[int, int, int, int | None, float]


class GroupRecord(Struct, frozen=True, rename="camel"):
    min: int | None
    max: int | None
    desired: int | None
    current: int
    ready: int
    capacity_class: str = field(name="class")
    price_per_hour: float | None  # of the current nodes, in the provider's currency
    offerings: list[str]
    why: str
    blockers: list[BlockerRecord]
    history: list[SizePoint] | UnsetType = UNSET  # in a full snapshot
    point: SizePoint | UnsetType = UNSET  # in a change: the newest of the history


class GroupRefusal(Struct, frozen=True, rename="camel"):
    group: str
    why: str


class PendingRecord(Struct, frozen=True, rename="camel"):
    since: datetime | None
    why: str
    awaits: ExpectedNode | None  # the node that is or will be ordered for it
    tried: list[GroupRefusal]


class DriveRecord(Struct, frozen=True, rename="camel"):
    device: str
    container: str | None
    state: str  # free, blocked, committed, proposed, terminating


class PortsRecord(Struct, frozen=True, rename="camel"):
    first: int = field(name="from")
    last: int = field(name="to")
    container: str


class AllocationRecord(Struct, frozen=True, rename="camel"):
    drives: list[DriveRecord]
    ports: list[PortsRecord]
    waiting: list[str]  # containers without a complete allocation
    problems: list[str]


class DecisionRecord(Struct, frozen=True, rename="camel"):
    at: datetime
    controller: str
    object: str
    action: str
    why: str
    result: str


class OperatorRecord(Struct, frozen=True, rename="camel"):
    cluster: str  # kubeconfig context or API server
    identity: str
    leader: bool
    read_only: bool
    controllers: tuple[str, ...]
    version: str


class SnapshotRecord(Struct, frozen=True, rename="camel"):
    """A full snapshot, or a change: records of each section by name, None for a deleted one."""

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
