"""A group keeps its minimum, and what someone asked for with `kubectl scale`."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation
from plimsoll.nodegroups.spec import floor_of


def minimum(candidate: Candidate, situation: Situation) -> Blocker | None:
    group = candidate.group
    floor = floor_of(group.group)
    left = group.current - situation.chosen.nodes[group.key] - 1
    if left >= floor:
        return None
    return Blocker("NodeGroupMinSizeReached", f"group {group.key} would have {left} nodes and must keep {floor}")
