"""What an explanation says, as data. The JSON of `plimsoll explain -o json` is these structs, field by field."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.expected_node import Awaited
from plimsoll.runtime.decision import Action, Blocker, Create, Decision, Delete, Evict, Patch, Reason, Transaction


class Answer(Struct, frozen=True, rename="camel", kw_only=True):
    """About one object."""

    kind: str
    namespace: str = ""
    name: str
    as_of: datetime


class Split(Struct, frozen=True, rename="camel"):
    spot: int
    on_demand: int


class Guard(Struct, frozen=True, rename="camel"):
    """One condition of a move."""

    guard: str
    open: bool
    message: str = ""
    until: datetime | None = None


class Policy(Struct, frozen=True, rename="camel"):
    """What the annotations ask for."""

    min_on_demand: int
    spot_percentage: int
    rounding: str
    window: str = ""  # of the workload, its namespace or the operator; empty: always open


class Leaving(Struct, frozen=True, rename="camel"):
    """One pod's place in the order of deletion."""

    pod: str
    node: str
    zone: str
    cost: int | None
    placed_by: str


class Order(Struct, frozen=True, rename="camel"):
    replica_set: str
    imbalance: int
    departures: tuple[Leaving, ...]


class WorkloadAnswer(Answer, frozen=True, rename="camel", kw_only=True):
    managed: bool
    reason: Reason
    policy: Policy | None = None
    target: Split | None = None
    current: Split | None = None
    ready: int | None = None
    drift: Split | None = None
    action: str = "none"
    steps: tuple[str, ...] = ()  # what the operator would do now
    blockers: tuple[Blocker, ...] = ()
    guards: tuple[Guard, ...] = ()
    errors: tuple[str, ...] = ()
    deletion_cost: Reason | None = None
    deletion_order: tuple[Order, ...] = ()


class Usage(Struct, frozen=True, rename="camel"):
    resource: str
    requested: str
    allocatable: str
    percent: float


class Moving(Struct, frozen=True, rename="camel"):
    pod: str
    to: str


class NodeAnswer(Answer, frozen=True, rename="camel", kw_only=True):
    capacity_class: str
    zone: str
    ready: bool
    leaving: str = ""  # the taint that says that it is about to go
    usage: tuple[Usage, ...]
    removable: bool
    why_not: Reason | None = None
    moves: tuple[Moving, ...] = ()  # where its pods would go
    staying: tuple[str, ...] = ()  # pods that go with the node: DaemonSets' and static ones


class NodesSaying(Struct, frozen=True, rename="camel"):
    """Nodes that refuse a pod for the same rule."""

    rule: str
    nodes: int
    example: str
    message: str


class PodAnswer(Answer, frozen=True, rename="camel", kw_only=True):
    phase: str
    node: str = ""
    workload: str = ""
    capacity_class: str = ""
    reason: Reason
    awaits: Awaited | None = None  # the node that is ordered for it, or about to be
    coming: tuple[Awaited, ...] = ()  # other nodes that are on their way, whether or not they would take it
    fits: tuple[str, ...] = ()  # nodes that would take it now
    refusals: tuple[NodesSaying, ...] = ()


class Staying(Struct, frozen=True, rename="camel"):
    """A node that might have gone, and what keeps it."""

    node: str
    why: str


class GroupAnswer(Answer, frozen=True, rename="camel", kw_only=True):
    reason: Reason
    current: int | None = None
    desired: int | None = None
    adding: int = 0
    removing: int = 0
    steps: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    errors: tuple[str, ...] = ()
    staying: tuple[Staying, ...] = ()


class DecisionAnswer(Answer, frozen=True, rename="camel", kw_only=True):
    """What a controller says of an object of its own kind."""

    controller: str
    reason: Reason
    steps: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    errors: tuple[str, ...] = ()


def steps(decision: Decision) -> tuple[str, ...]:
    """What a decision would do, a line an action."""
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
