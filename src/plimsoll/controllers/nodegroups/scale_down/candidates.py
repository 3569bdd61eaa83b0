"""Which nodes might go, and in which order they are asked: not ready ones first, then the oldest, then the least used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.members import oldest_first
from plimsoll.controllers.nodegroups.scale_down.context import Candidate
from plimsoll.controllers.nodegroups.scale_down.unready import given_up, unready_since
from plimsoll.controllers.nodegroups.scale_down.utilisation import Used, Utilisation
from plimsoll.controllers.nodegroups.spec import underutilization_duration
from plimsoll.kube.types.core import Node


def low_nodes(groups: Sequence[GroupSeen], used: Used) -> Iterator[str]:
    """The UIDs of all nodes of groups that are little used now."""
    for group in groups:
        yield from used.low(group.nodes.values(), group.group.spec.scale_down_policy)


def candidates(group: GroupSeen, seen: Seen, used: Used, low_since: Mapping[str, datetime]) -> Iterator[Candidate]:
    """The nodes of one group that might go now, the first to be asked first."""
    surplus = group.current - group.group.spec.max_nodes
    if not group.group.spec.scale_down_policy.enabled or not (surplus > 0 or group.unready or low_since):
        return
    low_before = seen.now - underutilization_duration(group.group)
    found = []
    for member in group.staying:
        node = group.nodes.get(member.metadata.name)
        if node is None or member.phase != "Ready":
            continue
        ready = member.metadata.name not in group.unready
        since = low_since.get(node.metadata.uid)
        if surplus > 0 or (given_up(node, seen) if not ready else since is not None and since <= low_before):
            use = used.of(node)
            highest = use.highest if use is not None else 0.0
            found.append(((ready, oldest_first(member)[0], highest, member.metadata.name), member, node, use))
    for _, member, node, use in sorted(found, key=lambda one: one[0]):
        why = _why(group, node, surplus, use, low_since.get(node.metadata.uid))
        yield Candidate(member, node, group, partial(seen.must_move_from, node.metadata.name), why, use)


def next_due(groups: Sequence[GroupSeen], seen: Seen, low_since: Mapping[str, datetime]) -> datetime | None:
    """When the next node will have been little used, or not ready, for long enough to go."""
    due: list[datetime] = []
    for group in groups:
        if not group.group.spec.scale_down_policy.enabled:
            continue
        if low_since:
            lasts = underutilization_duration(group.group)
            low_after = seen.now - lasts
            sinces = (low_since.get(node.metadata.uid) for node in group.nodes.values())
            first = min((since for since in sinces if since is not None and since > low_after), default=None)
            due += [first + lasts] if first is not None else []
        unready = (unready_since(group.nodes[name]) for name in group.unready)
        timeout = seen.settings.unready_timeout
        due += [since + timeout for since in unready if since is not None and since + timeout > seen.now]
    return min(due, default=None)


def _why(
    group: GroupSeen, node: Node, surplus: int, utilisation: Utilisation | None, low_since: datetime | None
) -> str:
    if surplus > 0:
        return f"group {group.key} has {surplus} nodes more than its maximum"
    if not node.ready:
        return f"node {node.name} is not ready since {unready_since(node):%H:%M:%S}"
    return f"node {node.name} is little used since {low_since:%H:%M:%S}: {utilisation}"
