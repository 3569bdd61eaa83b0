"""Which nodes might go, and in which order they are asked: not ready ones first, then the oldest, then the least used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from plimsoll.nodegroups.seen import GroupSeen, Seen, must_move, oldest_first
from plimsoll.nodegroups.situation import Candidate
from plimsoll.nodegroups.spec import underutilization_duration
from plimsoll.nodegroups.unready import given_up, unready_since
from plimsoll.nodegroups.usage import Measured
from plimsoll.nodegroups.utilisation import Utilisation, utilisation_of


def utilisations(groups: Sequence[GroupSeen], seen: Seen, measured: Measured | None = None) -> dict[str, Utilisation]:
    """Of every node that belongs to a group, by the Node's UID: as it is measured, or else as it is requested."""
    found = {}
    for group in groups:
        for node in group.nodes.values():
            used = measured.of(node, seen.now) if measured else utilisation_of(node, seen.pods_on(node.name))
            if used is not None:
                found[node.uid] = used
    return found


def candidates(
    group: GroupSeen, seen: Seen, used: Mapping[str, Utilisation], low_since: Mapping[str, datetime]
) -> list[Candidate]:
    """The nodes of one group that might go now, the first to be asked first."""
    if not group.group.spec.scale_down_policy.enabled:
        return []
    surplus = group.current - group.group.spec.max_nodes
    found = []
    for member in group.staying:
        node = group.nodes.get(member.name)
        if node is None or member.phase != "Ready":
            continue
        why = ""
        since = low_since.get(node.uid)
        if surplus > 0:
            why = f"group {group.key} has {surplus} nodes more than its maximum"
        elif not node.ready:
            if given_up(node, seen):
                why = f"node {node.name} is not ready since {unready_since(node):%H:%M:%S}"
        elif since is not None and seen.now - since >= underutilization_duration(group.group):
            why = f"node {node.name} is little used since {since:%H:%M:%S}: {used[node.uid]}"
        if why:
            pods = tuple(must_move(seen.pods_on(node.name)))
            found.append(Candidate(member, node, group, pods, why, used.get(node.uid)))
    return sorted(found, key=_order)


def _order(candidate: Candidate) -> tuple[object, ...]:
    used = candidate.utilisation.highest if candidate.utilisation is not None else 0.0
    return (candidate.node.ready, *oldest_first(candidate.member)[:1], used, candidate.member.name)
