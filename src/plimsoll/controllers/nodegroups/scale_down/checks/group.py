"""Checks that concern the group of a node, and the history of the node itself."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.other_installations import left_to_other_installation
from plimsoll.controllers.nodegroups.scale_down.checks.check import CheckContext, RemovalCandidate
from plimsoll.controllers.nodegroups.scale_down.unready import blocks_replacement
from plimsoll.controllers.nodegroups.spec import minimum_size, scale_down_cooldown
from plimsoll.controllers.nodegroups.types import find_condition
from plimsoll.kube.labels import ZONE
from plimsoll.runtime.decision import Blocker


def other_installation(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """A group that another installation manages is left to it."""
    return left_to_other_installation(candidate.group, check_context.context)


def group_minimum(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """A group keeps minNodes, and desiredNodes. Nodes that have not joined do not count: they may never come."""
    group = candidate.group
    minimum = minimum_size(group.group)
    left = group.joined - check_context.chosen.nodes[group.key] - 1
    if left >= minimum:
        return None
    full = group.current >= group.group.spec.max_nodes
    if full and blocks_replacement(candidate.node, candidate.pods, group, check_context.context):
        return None
    return Blocker("NodeGroupMinSizeReached", f"group {group.key} would have {left} nodes and must keep {minimum}")


def group_surplus(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """Of nodes that are in use, only as many are removed as the group has too many."""
    group = candidate.group
    if not candidate.surplus_only or check_context.chosen.nodes[group.key] < group.surplus:
        return None
    message = (
        f"node {candidate.name} is not underutilized, and other nodes make up for the surplus of group {group.key}"
    )
    return Blocker("NotUnderutilized", message)


def group_cooldown(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """After a node was added or removed, the group is not scaled down for scaleDownCooldown."""
    status = candidate.group.group.status
    times = [moment for moment in (status.last_scale_up_time, status.last_scale_down_time) if moment is not None]
    if not times:
        return None
    until = max(times) + scale_down_cooldown(candidate.group.group)
    if until <= check_context.context.now:
        return None
    message = (
        f"group {candidate.group.key} was scaled at {max(times):%H:%M:%S}; scaleDownCooldown ends at {until:%H:%M:%S}"
    )
    return Blocker("CooldownActive", message, until=until)


def zone_balance(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """The zones of a group differ by at most one node: nodes of the largest zone go first."""
    zone = candidate.node.labels.get(ZONE)
    if zone is None or not candidate.node.ready:
        return None
    group, removed = candidate.group, check_context.chosen.in_zones
    left = {name: count - removed[group.key, name] for name, count in group.zones.items()}
    largest = max(left, key=lambda name: (left[name], name))
    if left[zone] >= left[largest]:
        return None
    message = f"zone {zone} has {left[zone]} nodes of group {group.key} and zone {largest} has {left[largest]}: a node there goes first"
    return Blocker("ZoneBalance", message)


def recently_blocked(candidate: RemovalCandidate, check_context: CheckContext) -> Blocker | None:
    """A node whose drain was cancelled is not tried again at once: the reason is usually still there."""
    condition = find_condition(candidate.member, "Draining")
    if condition is None or condition.status != "False" or condition.last_transition_time is None:
        return None
    until = condition.last_transition_time + check_context.context.settings.backoff_base
    if until <= check_context.context.now:
        return None
    message = f"the drain of node {candidate.name} was cancelled and is not tried again before {until:%H:%M:%S}: {condition.message}"
    return Blocker(condition.reason, message, until=until)
