"""Explanations as data. `plimsoll explain -o json` prints these structs field by field."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.expected_node import ExpectedNode
from plimsoll.runtime.decision import Action, Blocker, Create, Decision, Delete, Evict, Patch, Reason, Transaction


class Explanation(Struct, frozen=True, rename="camel", kw_only=True):
    """The common fields of every explanation."""

    kind: str
    namespace: str = ""
    name: str
    as_of: datetime


class ReplicaSplit(Struct, frozen=True, rename="camel"):
    spot: int
    on_demand: int


class GuardResult(Struct, frozen=True, rename="camel"):
    """The result of one guard for the next move. `guard` is the public id of the guard."""

    guard: str
    open: bool
    message: str = ""
    until: datetime | None = None


class PolicyView(Struct, frozen=True, rename="camel"):
    """The placement policy from the annotations."""

    min_on_demand: int
    spot_percentage: int
    rounding: str
    window: str = ""  # of the workload, its namespace or the configuration; empty: always open


class DeletionRank(Struct, frozen=True, rename="camel"):
    """One pod's position in the deletion order."""

    pod: str
    node: str
    zone: str
    cost: int | None
    placed_by: str


class ReplicaSetOrder(Struct, frozen=True, rename="camel"):
    replica_set: str
    imbalance: int
    departures: tuple[DeletionRank, ...]


class WorkloadExplanation(Explanation, frozen=True, rename="camel", kw_only=True):
    managed: bool
    reason: Reason
    policy: PolicyView | None = None
    target: ReplicaSplit | None = None
    current: ReplicaSplit | None = None
    ready: int | None = None
    drift: ReplicaSplit | None = None
    action: str = "none"
    steps: tuple[str, ...] = ()  # actions that the operator would take now
    blockers: tuple[Blocker, ...] = ()
    guards: tuple[GuardResult, ...] = ()
    errors: tuple[str, ...] = ()
    deletion_cost: Reason | None = None
    deletion_order: tuple[ReplicaSetOrder, ...] = ()


class ResourceUsage(Struct, frozen=True, rename="camel"):
    resource: str
    requested: str
    allocatable: str
    percent: float


class PodMove(Struct, frozen=True, rename="camel"):
    pod: str
    to: str


class NodeExplanation(Explanation, frozen=True, rename="camel", kw_only=True):
    capacity_class: str
    zone: str
    ready: bool
    leaving: str = ""  # the taint that announces its removal
    usage: tuple[ResourceUsage, ...]
    removable: bool
    why_not: Reason | None = None
    moves: tuple[PodMove, ...] = ()  # where its pods would run
    staying: tuple[str, ...] = ()  # DaemonSet and static pods, which are not moved


class RejectingNodes(Struct, frozen=True, rename="camel"):
    """Nodes on which a pod does not fit because of the same rule."""

    rule: str
    nodes: int
    example: str
    message: str


class PodExplanation(Explanation, frozen=True, rename="camel", kw_only=True):
    phase: str
    node: str = ""
    workload: str = ""
    capacity_class: str = ""
    reason: Reason
    awaits: ExpectedNode | None = None  # the node that is or will be created for it
    coming: tuple[ExpectedNode, ...] = ()  # other nodes that are being created, whether or not the pod fits there
    fits: tuple[str, ...] = ()  # nodes on which it fits now
    refusals: tuple[RejectingNodes, ...] = ()


class KeptNode(Struct, frozen=True, rename="camel"):
    """A removal candidate that is kept, and why."""

    node: str
    why: str


class NodeGroupExplanation(Explanation, frozen=True, rename="camel", kw_only=True):
    reason: Reason
    current: int | None = None
    desired: int | None = None
    adding: int = 0
    removing: int = 0
    steps: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    errors: tuple[str, ...] = ()
    staying: tuple[KeptNode, ...] = ()


class DecisionExplanation(Explanation, frozen=True, rename="camel", kw_only=True):
    """The decision of the controller that owns the kind."""

    controller: str
    reason: Reason
    steps: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    errors: tuple[str, ...] = ()


def steps(decision: Decision) -> tuple[str, ...]:
    """One line per action of the decision."""
    return tuple(_step(action) for action in decision.actions)


def _step(action: Action) -> str:
    match action:
        case Patch():
            what = f"patch {action.target}"
        case Create():
            what = f"create {action.resource.kind} {action.namespace}/{action.name}"
        case Delete():
            what = f"delete {action.target}"
        case Evict():
            what = f"evict {action.pod}"
        case Transaction():
            what = f"settle {action.target}"
    return f"{what}: {action.why.message}"
