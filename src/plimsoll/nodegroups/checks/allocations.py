"""Drives and ports that a storage container holds on the node, or is about to, are not taken from under it."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.situation import Candidate, Situation


def allocations(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "WekaContainer":
            message = f"pod {pod.namespace}/{pod.name} runs the storage container {owner.name}"
            return Blocker("AllocationOnNode", message)
    holders = situation.seen.settings.holders
    if holders is not None and (holder := holders.seen_on(candidate.name, situation.seen.view)) is not None:
        return Blocker("AllocationOnNode", f"{holders.title(holder)} holds, or is about to hold, drives there")
    return None
