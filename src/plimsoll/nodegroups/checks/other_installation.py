"""A group that another installation looks after is left to it."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.others import left_to_another
from plimsoll.nodegroups.situation import Candidate, Situation


def other_installation(candidate: Candidate, situation: Situation) -> Blocker | None:
    return left_to_another(candidate.group, situation.seen)
