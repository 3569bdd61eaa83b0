"""Nodes that are not ready: for how long, when one is replaced, and when so many are unready that nothing is removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.spec import minimum_size
from plimsoll.controllers.nodegroups.types import BY_PHASE, VPSIE_NODES
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES, NOT_READY
from plimsoll.runtime.decision import Blocker


def unready_since(node: Node) -> datetime | None:
    """None if the node is ready, or does not say since when it is not."""
    if node.ready:
        return None
    times = [one.last_transition_time for one in node.status.conditions if one.type == "Ready"]
    return max((moment for moment in times if moment is not None), default=None)


def unready_too_long(node: Node, context: DecisionContext) -> bool:
    """Whether the node has not been ready for `unready_timeout`."""
    since = unready_since(node)
    return since is not None and context.now - since >= context.settings.unready_timeout


def blocks_replacement(node: Node, pods: Sequence[Pod], group: GroupState, context: DecisionContext) -> bool:
    """Whether an unready node without pods must go first because its group may have no more nodes than its minimum size."""
    return (
        not pods and minimum_size(group.group) >= group.group.spec.max_nodes and unready_too_long(node, context)
    )  # fmt: skip


def nodes_to_replace(group: GroupState, context: DecisionContext) -> int:
    """How many nodes of the group have been unready for too long; 0 if so many are unready that nothing can be concluded."""
    if not group.unready or halt(context) is not None:
        return 0
    suspects = [member for member in group.remaining if member.name in group.unready and member.phase == "Ready"]
    return sum(unready_too_long(group.nodes[member.name], context) for member in suspects)


def halt(context: DecisionContext) -> Blocker | None:
    """Stops all removals if so many nodes are unready or missing that the operator itself is probably cut off."""
    nodes, members = context.view[NODES], context.view[VPSIE_NODES]
    missing = sum(nodes.get("", one.node_name) is None for one in members.by(BY_PHASE, "Ready"))
    unready = missing + len(nodes.by(NOT_READY, ""))
    total, settings = missing + len(nodes), context.settings
    if unready > settings.unready_nodes and unready * 100 > settings.unready_percentage * total:
        message = f"{unready} of {total} nodes are not ready or missing: no node is removed until most are ready again"
        return Blocker("TooManyUnready", message)
    if missing and not len(nodes):
        return Blocker("NoNodes", "the API server lists no node at all: no node is removed until it does")
    return None
