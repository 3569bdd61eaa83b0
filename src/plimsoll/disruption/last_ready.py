"""How many replicas of a workload stay ready without one of them: the rules that hold where no budget speaks.

The last ready replica of a workload is not evicted unless the user allows it. Where no PodDisruptionBudget covers a pod, at most
one replica of its workload may be missing at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import Key
from plimsoll.kube.workloads import Owner, active
from plimsoll.runtime.decision import Blocker


def ready_without(pod: Pod, replicas: Iterable[Pod], discounted: Collection[str] = ()) -> int:
    """Replicas that are ready and stay so when `pod` is evicted. `discounted`: UIDs of pods that are about to go, too."""
    return sum(1 for one in replicas if one.uid != pod.uid and one.ready and active(one) and one.uid not in discounted)


def last_ready_blocker(
    pod: Pod, workload: Key, replicas: Iterable[Pod], discounted: Collection[str] = ()
) -> Blocker | None:
    """A blocker if `pod` is the only replica of its workload that is ready."""
    if not pod.ready or ready_without(pod, replicas, discounted) > 0:
        return None
    return Blocker("LastReady", f"pod {pod.namespace}/{pod.name} is the only ready replica of {workload}")


def one_at_a_time_blocker(
    pod: Pod, workload: Key, wanted: int, replicas: Iterable[Pod], discounted: Collection[str] = ()
) -> Blocker | None:
    """A blocker if another replica of a workload without a PodDisruptionBudget is missing already."""
    others = ready_without(pod, replicas, discounted)
    if others >= wanted - 1:
        return None
    message = (
        f"{others + pod.ready} of {wanted} replicas of {workload} are ready and no PodDisruptionBudget covers them: "
        "without one, only one replica may be missing at a time"
    )
    return Blocker("OwnerDisrupted", message)


def wanted_replicas(owner: Owner) -> int:
    """Replicas that the owner asks for; where that is not known, the pods that it has."""
    return owner.replicas if owner.replicas is not None else sum(1 for pod in owner.pods if not pod.finished)
