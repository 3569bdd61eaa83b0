"""Annotations by which people say that a pod or a node must not be disrupted.

The keys are those that users of Cluster Autoscaler, Karpenter, the descheduler and the VPSie autoscaler write already. A new
opt-out is added here, and every caller respects it: placement, node groups, `explain` and the dashboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.durations import parse_duration
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Blocker, Problem, Ref

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SCALE_DOWN = "autoscaler.vpsie.com/scale-down"

INVALID_OPT_OUT = "InvalidOptOut"


class _DoNotDisrupt(Struct, frozen=True):
    """A value of `karpenter.sh/do-not-disrupt` as Karpenter reads it."""

    active: bool = False
    until: datetime | None = None
    problem: str = ""


def pod_opt_out(pod: Pod, now: datetime) -> Blocker | None:
    """The annotation that forbids to evict this pod now, with its end where it has one; None where nothing does."""
    title = f"pod {pod.namespace}/{pod.name} has the annotation"
    safe = pod.annotations.get(SAFE_TO_EVICT)
    if safe in ("false", "on-completion"):
        return Blocker("NotSafeToEvictAnnotation", f'{title} {SAFE_TO_EVICT}: "{safe}"')
    wish = _do_not_disrupt(pod, now)
    if wish.active:
        value = pod.annotations[DO_NOT_DISRUPT]
        return Blocker("NotSafeToEvictAnnotation", f'{title} {DO_NOT_DISRUPT}: "{value}"', wish.until)
    return None


def node_opt_out(title: str, annotations: Mapping[str, str]) -> Blocker | None:
    """The annotation that forbids to remove this node. `title` names the annotated object for the message."""
    if annotations.get(SCALE_DOWN_DISABLED) == "true":
        message = f'{title} has the annotation {SCALE_DOWN_DISABLED}: "true"'
        return Blocker("ScaleDownDisabledAnnotation", message)
    if annotations.get(SCALE_DOWN) == "disabled":
        return Blocker("ScaleDownDisabledAnnotation", f'{title} has the annotation {SCALE_DOWN}: "disabled"')
    return None


def said_safe(pod: Pod) -> bool:
    """Whether `safe-to-evict: "true"` says that the pod may be evicted whatever the safety checks for pods say."""
    return pod.annotations.get(SAFE_TO_EVICT) == "true"


def prefers_to_stay(pod: Pod) -> bool:
    """Whether the pod is moved only if no other one can be moved instead."""
    return PREFER_NO_EVICTION in pod.annotations


def local_volumes(pod: Pod) -> list[str]:
    """Names of the volumes whose data is lost when the pod is evicted, without those that the user exempted."""
    exempt = {name.strip() for name in pod.annotations.get(SAFE_TO_EVICT_LOCAL_VOLUMES, "").split(",")}
    return [
        volume.name
        for volume in pod.spec.volumes
        if (volume.empty_dir is not None or volume.host_path is not None) and volume.name not in exempt
    ]


def invalid_opt_outs(pods: Iterable[Pod], now: datetime) -> tuple[Problem, ...]:
    """A problem for each pod whose opt-out cannot be read, and which is therefore not protected by it."""
    return tuple(
        Problem(Ref.to(PODS, pod), INVALID_OPT_OUT, problem)
        for pod in pods
        if DO_NOT_DISRUPT in pod.annotations and (problem := _do_not_disrupt(pod, now).problem)
    )


def _do_not_disrupt(pod: Pod, now: datetime) -> _DoNotDisrupt:
    """Karpenter's semantics: "true", or a positive Go duration that counts from the start of the pod.

    A pod that has not started is protected. A value that cannot be read protects nothing and is a problem.
    """
    value = pod.annotations.get(DO_NOT_DISRUPT)
    if value is None or value == "false":
        return _DoNotDisrupt()
    if value == "true":
        return _DoNotDisrupt(active=True)
    try:
        duration = parse_duration(value)
        if duration.total_seconds() <= 0:
            raise ValueError  # noqa: TRY301 - the same answer as for what is no duration at all
        started = pod.status.start_time
        until = started + duration if started is not None else None
    except (ValueError, OverflowError):
        shown = value if len(value) <= 40 else f"{value[:40]}…"
        message = (
            f'pod {pod.namespace}/{pod.name}: annotation {DO_NOT_DISRUPT} is "{shown}", expected "true" or a positive duration '
            'such as "90m"; it is ignored and the pod may be evicted'
        )
        return _DoNotDisrupt(problem=message)
    return _DoNotDisrupt(active=until is None or now < until, until=until)
