"""The zones of a group differ by one node at most: what leaves comes from the fullest."""

from __future__ import annotations

from collections import Counter

from plimsoll.decision import Blocker
from plimsoll.nodegroups.blueprint import ZONE
from plimsoll.nodegroups.situation import Candidate, Situation


def zone_balance(candidate: Candidate, situation: Situation) -> Blocker | None:  # noqa: ARG001 - the shape of all checks
    zone = candidate.node.labels.get(ZONE)
    if zone is None or not candidate.node.ready:
        return None
    group = candidate.group
    zones = Counter(
        node.labels[ZONE]
        for member in group.staying
        if (node := group.nodes.get(member.name)) is not None and ZONE in node.labels
    )
    fullest, most = zones.most_common(1)[0]
    if zones[zone] >= most:
        return None
    message = f"zone {zone} has {zones[zone]} nodes of group {group.key}, zone {fullest} has {most}: others go first"
    return Blocker("ZoneBalance", message)
