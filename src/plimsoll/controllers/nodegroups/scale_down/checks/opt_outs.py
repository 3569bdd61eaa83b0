"""People can say that a node stays, or that a pod must not be moved."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Situation
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import parse_duration
from plimsoll.runtime.decision import Blocker

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SCALE_DOWN = "autoscaler.vpsie.com/scale-down"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def opt_outs(candidate: Candidate, situation: Situation) -> Blocker | None:
    for whose, said in (
        (f"node {candidate.name}", candidate.node.annotations),
        (f"VPSieNode {candidate.member.name}", candidate.member.annotations),
    ):
        if said.get(SCALE_DOWN_DISABLED) == "true":
            return Blocker("ScaleDownDisabledAnnotation", f"{whose} has the annotation {SCALE_DOWN_DISABLED}")
        if said.get(SCALE_DOWN) == "disabled":
            return Blocker("ScaleDownDisabledAnnotation", f"{whose} has the annotation {SCALE_DOWN}: disabled")
    for pod in candidate.pods:
        stays = _must_stay(pod, situation)
        if stays:
            message = f"pod {pod.namespace}/{pod.name} has the annotation {stays}"
            return Blocker("NotSafeToEvictAnnotation", message)
    return None


def _must_stay(pod: Pod, situation: Situation) -> str:
    safe = pod.annotations.get(SAFE_TO_EVICT)
    if safe in ("false", "on-completion"):
        return f'{SAFE_TO_EVICT}: "{safe}"'
    said = pod.annotations.get(DO_NOT_DISRUPT)
    if said is None:
        return ""
    if said == "true":
        return f'{DO_NOT_DISRUPT}: "true"'
    try:
        lasts = parse_duration(said)
    except ValueError:
        return ""
    began = pod.status.start_time or pod.metadata.creation_timestamp
    age = situation.seen.now - began if began is not None else timedelta(0)
    return f'{DO_NOT_DISRUPT}: "{said}"' if age < lasts else ""


def said_safe(pod: Pod) -> bool:
    """Whether people said that the pod may go whatever else speaks against it."""
    return pod.annotations.get(SAFE_TO_EVICT) == "true"
