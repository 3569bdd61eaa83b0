"""Types of the group apps: Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

from plimsoll.kube.types.core import PodSpec
from plimsoll.kube.types.meta import Condition, KubeObject, LabelSelector, Metadata, Part


class PodTemplate(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class Ordinals(Part, frozen=True, gc=False):
    start: int = 0  # of a StatefulSet's first pod


class RollingUpdate(Part, frozen=True, gc=False):
    max_surge: int | str | None = None  # of a Deployment; a count or a percentage such as "25%"


class DeploymentStrategy(Part, frozen=True, gc=False):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None

    def surge(self, replicas: int) -> int:
        """How many pods a rollout may create beyond `replicas`. Percentages are rounded up; the default is 25 %."""
        if self.type != "RollingUpdate":
            return 0
        value = self.rolling_update.max_surge if self.rolling_update is not None else None
        if value is None:
            value = "25%"
        if isinstance(value, int):
            return max(0, value)
        digits = value.removesuffix("%")
        return -(-replicas * int(digits) // 100) if digits.isascii() and digits.isdecimal() and len(digits) < 6 else 0


class WorkloadSpec(Part, frozen=True, gc=False):
    """The spec of all four kinds: they differ only in fields that this project does not read."""

    replicas: int = 1
    ordinals: Ordinals = Ordinals()
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    strategy: DeploymentStrategy = DeploymentStrategy()
    paused: bool = False


class WorkloadStatus(Part, frozen=True, gc=False):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class Workload(KubeObject, frozen=True, gc=False):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicaSet(Workload, frozen=True, gc=False):
    pass


class Deployment(Workload, frozen=True, gc=False):
    pass


class StatefulSet(Workload, frozen=True, gc=False):
    pass


class DaemonSet(Workload, frozen=True, gc=False):
    pass
