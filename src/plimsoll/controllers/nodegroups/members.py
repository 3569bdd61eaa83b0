"""The VPSieNodes of each group, sorted and counted once per change; read by `group_state`.

Groups have thousands of nodes and every pod event causes a decision, so the summary is cached until a member changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import is_

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.backoff import failure_backoff
from plimsoll.controllers.nodegroups.types import ORDERED_BY, VPSieNode

SAMPLES = 3  # nodes per offering from which its allocatable resources are learned


class GroupMembers(Struct, frozen=True):
    """What follows from a group's VPSieNodes alone. "Remaining" members are those that are not being removed."""

    ordered: tuple[VPSieNode, ...] = ()  # all members, oldest first
    remaining: tuple[VPSieNode, ...] = ()
    failed: tuple[VPSieNode, ...] = ()  # members whose failure pauses the group or their offering
    joined: int = 0  # remaining members in phase Ready, whether or not their node is ready now
    first_joined: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # offering → names of its first Ready members
    phases: Mapping[str, int] = field(default_factory=dict)  # number of members per phase
    names: tuple[str, ...] = ()  # of the remaining members
    last_number: int = 0  # the highest number at the end of a member's name
    node_names: tuple[tuple[str, str], ...] = ()  # of all members: the VPSieNode's name and the Node's
    ordered_by: Mapping[str, datetime] = field(default_factory=dict)  # installation → when it ordered its newest member


class MembersCache:
    """Part of the controller's state: the summary per group, computed again when a VPSieNode of the group changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[VPSieNode, ...], GroupMembers]] = {}

    def of(self, group: str, listed: tuple[VPSieNode, ...]) -> GroupMembers:
        """The summary of the members `listed` of a group (namespace/name)."""
        before, known = self._known.get(group, ((), GroupMembers()))
        if len(before) == len(listed) and all(map(is_, before, listed)):
            return known
        known = _summarize(listed)
        self._known[group] = (listed, known)
        return known


def _summarize(listed: tuple[VPSieNode, ...]) -> GroupMembers:
    ordered = tuple(sorted(listed, key=oldest_first))
    remaining = tuple(member for member in ordered if not member.being_removed)
    return GroupMembers(
        ordered=ordered,
        remaining=remaining,
        failed=tuple(member for member in ordered if failure_backoff(member) is not None),
        joined=sum(member.phase == "Ready" for member in remaining),
        first_joined=_first_joined(remaining),
        phases=Counter(member.phase for member in ordered),
        names=tuple(member.name for member in remaining),
        last_number=max((_number(member.name) for member in ordered), default=0),
        node_names=tuple((member.name, member.node_name) for member in ordered),
        ordered_by={
            by: made
            for member in ordered
            if (by := member.annotations.get(ORDERED_BY)) and (made := member.metadata.creation_timestamp) is not None
        },
    )


def _first_joined(remaining: tuple[VPSieNode, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for member in remaining:
        names = found.get(member.spec.instance_type, ())
        if member.phase == "Ready" and len(names) < SAMPLES:
            found[member.spec.instance_type] = (*names, member.name)
    return found


def _number(name: str) -> int:
    end = name.rpartition("-")[2]
    return int(end) if end.isdecimal() and len(end) < 9 else 0


def oldest_first(node: VPSieNode) -> tuple[datetime, str]:
    """Sort key."""
    return (node.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC), node.name)
