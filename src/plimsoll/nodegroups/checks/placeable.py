"""Each pod has a place elsewhere: its requests, affinities and spread judged as kube-scheduler will."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation


def placeable(candidate: Candidate, situation: Situation) -> Blocker | None:
    if not candidate.pods:
        return None
    removal = situation.removals.get(candidate.name)
    if removal is None:
        return Blocker(
            "NoPlaceToMovePods", f"whether the pods of node {candidate.name} have another place is not known"
        )
    if removal.reason is not None:
        return Blocker(
            "NoPlaceToMovePods", f"the pods of node {candidate.name} have no other place: {removal.reason.message}"
        )
    return None
