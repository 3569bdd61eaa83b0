"""A pod that nothing would make anew, and the only ready one of its owner, stay where they are."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.kube.owners import owner_of
from plimsoll.nodegroups.checks.opt_outs import said_safe
from plimsoll.nodegroups.situation import Candidate, Situation


def replicas(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if said_safe(pod):
            continue
        title = f"pod {pod.namespace}/{pod.name}"
        if pod.metadata.controller is None:
            return Blocker("NotReplicated", f"{title} has no controller that would make it anew")
        if pod.ready:
            owner = owner_of(pod, situation.seen.view)
            if not any(one.uid != pod.uid and one.ready and not one.terminating for one in owner.pods):
                return Blocker("LastReady", f"{title} is the only ready pod of {owner.key}")
    return None
