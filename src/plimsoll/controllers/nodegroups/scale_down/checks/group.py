"""A group that another installation looks after is left to it."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.group_state import ZONE
from plimsoll.controllers.nodegroups.other_installations import left_to_another
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Situation
from plimsoll.controllers.nodegroups.scale_down.unready import is_in_the_way
from plimsoll.controllers.nodegroups.spec import floor_of, scale_down_cooldown
from plimsoll.controllers.nodegroups.types import condition_of
from plimsoll.runtime.decision import Blocker


def other_installation(candidate: Candidate, situation: Situation) -> Blocker | None:
    return left_to_another(candidate.group, situation.seen)


# A group keeps its minimum, and what someone asked for with `kubectl scale`.


def minimum(candidate: Candidate, situation: Situation) -> Blocker | None:
    group = candidate.group
    floor = floor_of(group.group)
    left = group.joined - situation.chosen.nodes[group.key] - 1  # one that is still coming may never come
    if left >= floor:
        return None
    full = group.current >= group.group.spec.max_nodes
    if full and is_in_the_way(candidate.node, candidate.pods, group, situation.seen):
        return None
    return Blocker("NodeGroupMinSizeReached", f"group {group.key} would have {left} nodes and must keep {floor}")


# After a node was added or removed, the group is left in peace for a while.


def cooldown(candidate: Candidate, situation: Situation) -> Blocker | None:
    status = candidate.group.group.status
    times = [moment for moment in (status.last_scale_up_time, status.last_scale_down_time) if moment is not None]
    if not times:
        return None
    until = max(times) + scale_down_cooldown(candidate.group.group)
    if until <= situation.seen.now:
        return None
    return Blocker(
        "CooldownActive", f"group {candidate.group.key} was scaled at {max(times):%H:%M:%S}; it rests", until=until
    )


# A node whose drain had to be taken back is not tried again at once: most of the time the reason is still there.


def recently_blocked(candidate: Candidate, situation: Situation) -> Blocker | None:
    condition = condition_of(candidate.member, "Draining")
    if condition is None or condition.status != "False" or condition.last_transition_time is None:
        return None
    until = condition.last_transition_time + situation.seen.settings.backoff_base
    if until <= situation.seen.now:
        return None
    return Blocker(condition.reason, f"a drain was taken back: {condition.message}", until=until)


# The zones of a group differ by one node at most: what leaves comes from the fullest.


def zone_balance(candidate: Candidate, situation: Situation) -> Blocker | None:
    zone = candidate.node.labels.get(ZONE)
    if zone is None or not candidate.node.ready:
        return None
    group, gone = candidate.group, situation.chosen.in_zones
    left = {name: count - gone[group.key, name] for name, count in group.zones.items()}
    fullest = max(left, key=lambda name: (left[name], name))
    if left[zone] >= left[fullest]:
        return None
    message = (
        f"zone {zone} has {left[zone]} nodes of group {group.key}, zone {fullest} has {left[fullest]}: others go first"
    )
    return Blocker("ZoneBalance", message)
