"""Pods of kube-system are moved only where a PodDisruptionBudget or an annotation says that they may be."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.kube.covering import budgets_of
from plimsoll.nodegroups.checks.opt_outs import said_safe
from plimsoll.nodegroups.situation import Candidate, Situation


def system_pods(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if pod.namespace != "kube-system" or said_safe(pod):
            continue
        if not budgets_of(pod, situation.seen.view):
            message = f"pod {pod.namespace}/{pod.name} is a system pod without a PodDisruptionBudget"
            return Blocker("UnmovableKubeSystemPod", message)
    return None
