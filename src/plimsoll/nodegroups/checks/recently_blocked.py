"""A node whose drain had to be taken back is not tried again at once: most of the time the reason is still there."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation
from plimsoll.nodegroups.types import condition_of


def recently_blocked(candidate: Candidate, situation: Situation) -> Blocker | None:
    condition = condition_of(candidate.member, "Draining")
    if condition is None or condition.status != "False" or condition.last_transition_time is None:
        return None
    until = condition.last_transition_time + situation.seen.settings.backoff_base
    if until <= situation.seen.now:
        return None
    return Blocker(condition.reason, f"a drain was taken back: {condition.message}", until=until)
