"""Which nodes might go, and in which order they are asked: not ready ones first, then the oldest, then the least used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from plimsoll.kube.types import Node
from plimsoll.nodegroups.seen import GroupSeen, Seen, oldest_first
from plimsoll.nodegroups.situation import Candidate
from plimsoll.nodegroups.spec import underutilization_duration
from plimsoll.nodegroups.unready import given_up, unready_since
from plimsoll.nodegroups.usage import Measured
from plimsoll.nodegroups.utilisation import Use, Utilisation, utilisation_by_name
from plimsoll.scheduling.snapshot import Snapshot


def utilisations(
    groups: Sequence[GroupSeen], seen: Seen, snapshot: Snapshot, measured: Measured | None = None
) -> dict[str, Use]:
    """Of every node that belongs to a group, by the Node's UID: as it is measured, or else as it is requested."""
    requested = {} if measured is not None else utilisation_by_name(snapshot)
    found = {}
    for group in groups:
        policy = group.group.spec.scale_down_policy
        for node in group.nodes.values():
            used = measured.of(node, seen.now) if measured is not None else requested.get(node.metadata.name)
            if used is not None:
                found[node.metadata.uid] = Use(used, used.below(policy))
            else:
                found[node.metadata.uid] = Use(None, low=False)
    return found


def candidates(
    group: GroupSeen, seen: Seen, used: Mapping[str, Use], low_since: Mapping[str, datetime]
) -> Iterator[Candidate]:
    """The nodes of one group that might go now, the first to be asked first."""
    if not group.group.spec.scale_down_policy.enabled:
        return
    surplus = group.current - group.group.spec.max_nodes
    low_before = seen.now - underutilization_duration(group.group)
    found = []
    for member in group.staying:
        node = group.nodes.get(member.metadata.name)
        if node is None or member.phase != "Ready":
            continue
        ready = member.metadata.name not in group.unready
        since = low_since.get(node.metadata.uid)
        if surplus > 0 or (given_up(node, seen) if not ready else since is not None and since <= low_before):
            use = used.get(node.metadata.uid)
            highest = use.utilisation.highest if use is not None and use.utilisation is not None else 0.0
            found.append(((ready, oldest_first(member)[0], highest, member.metadata.name), member, node))
    for _, member, node in sorted(found, key=lambda one: one[0]):
        use = used.get(node.metadata.uid)
        utilisation = use.utilisation if use is not None else None
        why = _why(group, node, surplus, utilisation, low_since.get(node.metadata.uid))
        yield Candidate(member, node, group, partial(seen.must_move_from, node.metadata.name), why, utilisation)


def next_due(groups: Sequence[GroupSeen], seen: Seen, low_since: Mapping[str, datetime]) -> datetime | None:
    """When the next node will have been little used, or not ready, for long enough to go."""
    due: list[datetime] = []
    for group in groups:
        if not group.group.spec.scale_down_policy.enabled:
            continue
        lasts = underutilization_duration(group.group)
        nodes = [node for member in group.staying if (node := group.nodes.get(member.metadata.name)) is not None]
        low = [since for node in nodes if (since := low_since.get(node.metadata.uid)) and since + lasts > seen.now]
        due += [min(low) + lasts] if low else []
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
