"""A node on which pods that wait are counted on is not empty, although the scheduler has yet to find it."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation


def pods_expected(candidate: Candidate, situation: Situation) -> Blocker | None:
    pod = situation.expected.get(candidate.name)
    if pod is None:
        return None
    return Blocker("PodsExpected", f"pod {pod} waits for a place and would fit on node {candidate.name}")
