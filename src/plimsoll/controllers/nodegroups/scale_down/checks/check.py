"""The shape of a removal check: what it reads, and what it returns. The list of all checks is in `registry`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.scale_down.utilization import Utilization
from plimsoll.controllers.nodegroups.types import VPSieNode
from plimsoll.kube.labels import ZONE
from plimsoll.kube.types.core import Node, Pod
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.model import Removal


@dataclass(frozen=True)
class RemovalCandidate:
    """A node that might be removed."""

    member: VPSieNode
    node: Node
    group: GroupState
    find_pods: Callable[[], Iterable[Pod]]  # called at most once, and only if a check needs the pods
    why: str = ""
    surplus_only: bool = False  # a candidate only because the group has surplus nodes
    utilization: Utilization | None = None

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that would have to move."""
        return tuple(self.find_pods())


class ChosenNodes:
    """The nodes that were chosen earlier in the same decision. They count as removed."""

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()  # by group
        self.in_zones: Counter[tuple[str, str]] = Counter()  # by group and zone

    def add(self, candidate: RemovalCandidate) -> None:
        self.nodes[candidate.group.key] += 1
        self.in_zones[candidate.group.key, candidate.node.labels.get(ZONE, "")] += 1


class CheckContext(Struct, frozen=True):
    """What a check reads besides its candidate."""

    context: DecisionContext
    groups: Sequence[GroupState] = ()
    chosen: ChosenNodes = field(default_factory=ChosenNodes)
    removals: Mapping[str, Removal] = field(default_factory=dict)  # node → whether its pods fit elsewhere
    expected: Mapping[str, str] = field(default_factory=dict)  # node → a pending pod that is expected on it


CheckFunction: TypeAlias = Callable[[RemovalCandidate, CheckContext], Blocker | None]

# When a check is made:
#   group     before a node is chosen; the answer is the same for all ready nodes of a group in one zone
#   node      before a node is chosen
#   pods      before a node is chosen, and again as long as it is drained
#   eviction  before a node is chosen and before its first eviction; later a used-up budget is the drain's own doing
#   packing   last, because it needs the packing engine
Stage: TypeAlias = Literal["group", "node", "pods", "eviction", "packing"]


class Check(Struct, frozen=True):
    """One reason why a node may have to stay. `id` is public: it names the check in output and documentation."""

    id: str
    stage: Stage
    blocker: CheckFunction


def first_blocker(checks: Iterable[Check], candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    for check in checks:
        blocker = check.blocker(candidate, check_context)
        if blocker is not None:
            return blocker
    return None
