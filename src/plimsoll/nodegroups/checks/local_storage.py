"""What a pod keeps on its node is lost with it."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.kube.types import Pod
from plimsoll.nodegroups.checks.opt_outs import said_safe
from plimsoll.nodegroups.situation import Candidate, Situation

SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def local_storage(candidate: Candidate, situation: Situation) -> Blocker | None:  # noqa: ARG001 - the shape of all checks
    for pod in candidate.pods:
        kept = _local_volumes(pod)
        if kept and not said_safe(pod):
            message = (
                f"pod {pod.namespace}/{pod.name} keeps data on the node (volume {kept[0]}); if it may be lost, say so with the "
                f"annotation {SAFE_VOLUMES}"
            )
            return Blocker("LocalStorageRequested", message)
    return None


def _local_volumes(pod: Pod) -> list[str]:
    exempt = {name.strip() for name in pod.annotations.get(SAFE_VOLUMES, "").split(",")}
    return [
        volume.name
        for volume in pod.spec.volumes
        if (volume.empty_dir is not None or volume.host_path is not None) and volume.name not in exempt
    ]
