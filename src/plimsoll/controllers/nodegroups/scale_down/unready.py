"""Nodes that are not ready: since when, whether one is given up, and when there are so many that it is rather we who are cut off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.spec import floor_of
from plimsoll.controllers.nodegroups.types import BY_PHASE, VPSIE_NODES
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES, NOT_READY
from plimsoll.runtime.decision import Blocker


def unready_since(node: Node) -> datetime | None:
    """None where it is ready, or does not say since when it is not."""
    if node.ready:
        return None
    times = [one.last_transition_time for one in node.status.conditions if one.type == "Ready"]
    return max((moment for moment in times if moment is not None), default=None)


def given_up(node: Node, seen: Seen) -> bool:
    """Not ready for so long that nobody waits for it any more."""
    since = unready_since(node)
    return since is not None and seen.now - since >= seen.settings.unready_timeout


def is_in_the_way(node: Node, pods: Sequence[Pod], group: GroupSeen, seen: Seen) -> bool:
    """Given up and without pods, in a group that may have no more nodes than it must: another comes once this one is gone."""
    return not pods and floor_of(group.group) >= group.group.spec.max_nodes and given_up(node, seen)


def to_replace(group: GroupSeen, seen: Seen) -> int:
    """How many nodes of the group are given up; none while so many are not ready that nothing can be concluded from it."""
    if not group.unready or halt(seen) is not None:
        return 0
    suspects = [member for member in group.staying if member.name in group.unready and member.phase == "Ready"]
    return sum(given_up(group.nodes[member.name], seen) for member in suspects)


def halt(seen: Seen) -> Blocker | None:
    """With so many nodes not ready, or missing, it is rather we who are cut off: nothing is removed then."""
    nodes, members = seen.view[NODES], seen.view[VPSIE_NODES]
    missing = sum(nodes.get("", one.node_name) is None for one in members.by(BY_PHASE, "Ready"))
    unready = missing + len(nodes.by(NOT_READY, ""))
    total, settings = missing + len(nodes), seen.settings
    if unready > settings.unready_nodes and unready * 100 > settings.unready_percentage * total:
        message = f"{unready} of {total} nodes are not ready or missing: no node is removed until that is over"
        return Blocker("TooManyUnready", message)
    if missing and not len(nodes):
        return Blocker("NoNodes", "the API server shows no node at all: no node is removed until that is over")
    return None
