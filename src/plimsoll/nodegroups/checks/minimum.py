"""A group keeps its minimum, and what someone asked for with `kubectl scale`.

But for a node that serves nobody, in a group that is full: it makes room for the one that takes its place.
"""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation
from plimsoll.nodegroups.spec import floor_of
from plimsoll.nodegroups.unready import is_in_the_way


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
