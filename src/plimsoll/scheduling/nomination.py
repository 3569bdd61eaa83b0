"""Whether `status.nominatedNodeName` of a pending pod means that preemption is making room for it.

Used by node groups (scale-up), placement (spot fallback) and the dashboard. Since Kubernetes 1.35 the field is also set
before binding and by other components, and it may name a node that no longer exists. Such a pod is as pending as any other.
"""

from __future__ import annotations

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import BY_NODE, NODES, PODS


def preemption_under_way(pod: Pod, view: View) -> bool:
    """Whether the nominated node exists and pods of lower priority are terminating there.

    Once they are gone, the pod fits on that node like any other pod, so it need not be treated specially.
    """
    name = pod.status.nominated_node_name
    if not name or view[NODES].get("", name) is None:
        return False
    return any(
        victim.terminating and not victim.finished and victim.spec.priority < pod.spec.priority
        for victim in view[PODS].by(BY_NODE, name)
    )
