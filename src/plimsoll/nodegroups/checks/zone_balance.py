"""The zones of a group differ by one node at most: what leaves comes from the fullest."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.seen import ZONE
from plimsoll.nodegroups.situation import Candidate, Situation


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
