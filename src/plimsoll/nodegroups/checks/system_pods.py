"""Pods of kube-system are moved only where a PodDisruptionBudget or an annotation says that they may be."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.kube.resources import BUDGETS
from plimsoll.kube.selectors import selects
from plimsoll.nodegroups.checks.opt_outs import said_safe
from plimsoll.nodegroups.situation import Candidate, Situation


def system_pods(candidate: Candidate, situation: Situation) -> Blocker | None:
    for pod in candidate.pods:
        if pod.namespace != "kube-system" or said_safe(pod):
            continue
        budgets = situation.seen.view[BUDGETS]
        if not any(one.namespace == pod.namespace and selects(one.spec.selector, pod.labels) for one in budgets):
            message = f"pod {pod.namespace}/{pod.name} is a system pod without a PodDisruptionBudget"
            return Blocker("UnmovableKubeSystemPod", message)
    return None
