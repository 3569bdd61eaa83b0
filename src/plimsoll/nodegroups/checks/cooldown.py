"""After a node was added or removed, the group is left in peace for a while."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation
from plimsoll.nodegroups.spec import scale_down_cooldown


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
