"""The parts of Kubernetes objects that this project reads, and nothing more.

Structs are frozen and untracked by the garbage collector (`gc=False`): 20,000 pods are then 20,000 fewer objects to
walk at every collection. That is safe because they are decoded from JSON, a tree, and hold only tuples, strings, numbers
and mappings of those: nothing that could lead back to itself. Mappings are shared between the replicas of an owner;
nobody may change one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from plimsoll.kube.types.quantity import Quantity

Labels = Mapping[str, str]
Resources = Mapping[str, Quantity]

_NOTHING: dict[str, Any] = {}


def _nothing() -> Any:
    """One empty mapping for all: an empty dict in each of three fields of 20,000 pods would cost 4 MB."""
    return _NOTHING


class Part(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A piece of a Kubernetes object; unknown fields are passed over."""


# ── metadata ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class OwnerReference(Part, frozen=True, gc=False):
    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None


class Metadata(Part, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Labels = field(default_factory=_nothing)
    annotations: Labels = field(default_factory=_nothing)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; at most one may be marked so."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(Part, frozen=True, gc=False):
    """What every object has; each kind adds its spec and status."""

    metadata: Metadata = Metadata()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> Labels:
        return self.metadata.labels

    @property
    def annotations(self) -> Labels:
        return self.metadata.annotations

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class Condition(Part, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


# ── selectors ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Requirement(Part, frozen=True, gc=False):
    """One expression of a label or node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True, gc=False):
    match_labels: Labels = field(default_factory=_nothing)
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Part, frozen=True, gc=False):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Part, frozen=True, gc=False):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class PreferredNodeTerm(Part, frozen=True, gc=False):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Part, frozen=True, gc=False):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodeTerm, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Part, frozen=True, gc=False):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Part, frozen=True, gc=False):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Part, frozen=True, gc=False):
    """Both `podAffinity` and `podAntiAffinity` have this form."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Part, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Part, frozen=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Part, frozen=True, gc=False):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ContainerPort(Part, frozen=True, gc=False):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class ResourceRequirements(Part, frozen=True, gc=False):
    requests: Resources = field(default_factory=_nothing)
    limits: Resources = field(default_factory=_nothing)


class Container(Part, frozen=True, gc=False):
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar


class ClaimVolume(Part, frozen=True, gc=False):
    claim_name: str
    read_only: bool = False


class Volume(Part, frozen=True, gc=False):
    """Only what decides where a pod can run or whether it may leave; a mapping here tells that a source is there."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Mapping[str, Any] | None = None
    empty_dir: Mapping[str, Any] | None = None
    host_path: Mapping[str, Any] | None = None


class SchedulingGate(Part, frozen=True, gc=False):
    name: str


class PodSpec(Part, frozen=True, gc=False):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None  # pod-level requests, which replace the containers' sum
    overhead: Resources = field(default_factory=_nothing)
    node_name: str = ""
    node_selector: Labels = field(default_factory=_nothing)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduler_name: str = "default-scheduler"
    host_network: bool = False
    termination_grace_period_seconds: int | None = None


class ContainerStatus(Part, frozen=True, gc=False):
    name: str = ""
    restart_count: int = 0


class PodStatus(Part, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(KubeObject, frozen=True, gc=False):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ready_since(self) -> datetime | None:
        """When the pod became ready; None while it is not."""
        for condition in self.status.conditions:
            if condition.type == "Ready":
                return condition.last_transition_time if condition.status == "True" else None
        return None

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Taint(Part, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class NodeSpec(Part, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class AttachedVolume(Part, frozen=True, gc=False):
    name: str = ""


class NodeStatus(Part, frozen=True, gc=False):
    capacity: Resources = field(default_factory=_nothing)
    allocatable: Resources = field(default_factory=_nothing)
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(KubeObject, frozen=True, gc=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


# ── workloads ────────────────────────────────────────────────────────────────────────────────────────────────────────


class PodTemplate(Part, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class Ordinals(Part, frozen=True, gc=False):
    start: int = 0  # of a StatefulSet's first pod


class WorkloadSpec(Part, frozen=True, gc=False):
    """Deployment, ReplicaSet, StatefulSet and DaemonSet differ here only in fields that nobody reads."""

    replicas: int = 1
    ordinals: Ordinals = Ordinals()
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
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


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Namespace(KubeObject, frozen=True, gc=False):
    pass


class CustomObject(KubeObject, frozen=True, gc=False):
    """A custom resource whose schema belongs to someone else; read field by field."""

    spec: Mapping[str, Any] = field(default_factory=_nothing)
    status: Mapping[str, Any] = field(default_factory=_nothing)
