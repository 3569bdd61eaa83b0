"""What a safety check looks at: one node that might go, and everything around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.group_state import ZONE, GroupSeen, Seen
from plimsoll.controllers.nodegroups.scale_down.utilisation import Utilisation
from plimsoll.controllers.nodegroups.types import VPSieNode
from plimsoll.kube.types.core import Node, Pod
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.model import Removal


@dataclass(frozen=True)
class Candidate:
    """A node that might go."""

    member: VPSieNode
    node: Node
    group: GroupSeen
    found: Callable[[], Iterable[Pod]]  # looked for once, and only where something depends on it
    why: str = ""
    utilisation: Utilisation | None = None

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """That would have to move."""
        return tuple(self.found())


class Chosen:
    """The nodes that were chosen before in the same decision: they count as gone."""

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()  # by group
        self.in_zones: Counter[tuple[str, str]] = Counter()  # by group and zone

    def add(self, candidate: Candidate) -> None:
        self.nodes[candidate.group.key] += 1
        self.in_zones[candidate.group.key, candidate.node.labels.get(ZONE, "")] += 1


class Situation(Struct, frozen=True):
    seen: Seen
    groups: Sequence[GroupSeen] = ()
    chosen: Chosen = field(default_factory=Chosen)
    removals: Mapping[str, Removal] = field(default_factory=dict)  # node → whether its pods have a place elsewhere
    expected: Mapping[str, str] = field(default_factory=dict)  # node → a pod that waits and is counted on there


Check: TypeAlias = Callable[[Candidate, Situation], Blocker | None]
