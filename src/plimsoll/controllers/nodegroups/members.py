"""The VPSieNodes of each group in order, and what follows from them alone: worked out again only where one of them changed.

Groups have thousands of nodes, and every pod that comes or goes is a reason to look at all groups again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import is_

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.types import ORDERED_BY, VPSieNode


class Members(Struct, frozen=True):
    ordered: tuple[VPSieNode, ...] = ()  # the oldest first
    staying: tuple[VPSieNode, ...] = ()  # those that are not on their way out
    failed: tuple[VPSieNode, ...] = ()
    joined: int = 0  # of those that stay: nodes that have come, whether or not they are ready now
    phases: Mapping[str, int] = field(default_factory=dict)  # how many are in each
    names: tuple[str, ...] = ()  # of those that stay
    last_number: int = 0  # the highest at the end of any name
    places: tuple[tuple[str, str], ...] = ()  # of all: the name, and that of the Node
    ordered_by: Mapping[str, datetime] = field(default_factory=dict)  # by installation, when it ordered its newest


class Roll:
    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[VPSieNode, ...], Members]] = {}

    def of(self, group: str, listed: tuple[VPSieNode, ...]) -> Members:
        before, known = self._known.get(group, ((), Members()))
        if len(before) == len(listed) and all(map(is_, before, listed)):
            return known
        known = _members(listed)
        self._known[group] = (listed, known)
        return known


def _members(listed: tuple[VPSieNode, ...]) -> Members:
    ordered = tuple(sorted(listed, key=oldest_first))
    staying = tuple(member for member in ordered if not member.leaving)
    return Members(
        ordered=ordered,
        staying=staying,
        failed=tuple(member for member in ordered if member.phase == "Failed"),
        joined=sum(member.phase == "Ready" for member in staying),
        phases=Counter(member.phase for member in ordered),
        names=tuple(member.name for member in staying),
        last_number=max((_number(member.name) for member in ordered), default=0),
        places=tuple((member.name, member.node_name) for member in ordered),
        ordered_by={
            by: made
            for member in ordered
            if (by := member.annotations.get(ORDERED_BY)) and (made := member.metadata.creation_timestamp) is not None
        },
    )


def _number(name: str) -> int:
    end = name.rpartition("-")[2]
    return int(end) if end.isdecimal() and len(end) < 9 else 0


def oldest_first(node: VPSieNode) -> tuple[datetime, str]:
    return (node.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC), node.name)
