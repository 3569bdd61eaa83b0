"""Types of the core group: Pods, Nodes, Namespaces, ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

from plimsoll.kube.types.meta import (
    Condition,
    KubeObject,
    Labels,
    LabelSelector,
    Part,
    Requirement,
    Resources,
    empty_mapping,
)


class NodeSelectorTerm(Part, frozen=True, gc=False):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Part, frozen=True, gc=False):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


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
    requests: Resources = field(default_factory=empty_mapping)
    limits: Resources = field(default_factory=empty_mapping)


class RestartRule(Part, frozen=True, gc=False):
    action: str = ""


class Container(Part, frozen=True, gc=False):
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar
    restart_policy_rules: tuple[RestartRule, ...] = ()


class ClaimVolume(Part, frozen=True, gc=False):
    claim_name: str
    read_only: bool = False


class Volume(Part, frozen=True, gc=False):
    """The sources that decide where a pod can run or whether it may be evicted. A mapping only shows that a source is set."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Mapping[str, Any] | None = None
    empty_dir: Mapping[str, Any] | None = None
    host_path: Mapping[str, Any] | None = None


class SchedulingGate(Part, frozen=True, gc=False):
    name: str


class PodResourceClaim(Part, frozen=True, gc=False):
    """A device claim of the pod (dynamic resource allocation)."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(Part, frozen=True, gc=False):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None  # pod-level requests, which replace the containers' sum
    overhead: Resources = field(default_factory=empty_mapping)
    node_name: str = ""
    node_selector: Labels = field(default_factory=empty_mapping)
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
    host_users: bool | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    termination_grace_period_seconds: int | None = None
    # Names of fields that may constrain scheduling and that nothing here reads (`kube/types/pod_fields.py`): those of gang
    # scheduling, and those of a newer Kubernetes. Set while the pod is decoded.
    unknown_fields: tuple[str, ...] = field(default=(), name="_unknownFields")


class StatusResources(Part, frozen=True, gc=False):
    """Requests in a status. Quantities stay text: they are needed only while a resize is under way."""

    requests: Mapping[str, Any] = field(default_factory=empty_mapping)


class ContainerStatus(Part, frozen=True, gc=False):
    name: str = ""
    restart_count: int = 0
    allocated_resources: Mapping[str, Any] = field(default_factory=empty_mapping)
    resources: StatusResources | None = None


class PodStatus(Part, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Mapping[str, Any] = field(default_factory=empty_mapping)  # of pod-level requests
    resources: StatusResources | None = None  # of pod-level requests


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
    capacity: Resources = field(default_factory=empty_mapping)
    allocatable: Resources = field(default_factory=empty_mapping)
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(KubeObject, frozen=True, gc=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class Namespace(KubeObject, frozen=True, gc=False):
    pass


class ConfigMap(KubeObject, frozen=True, gc=False):
    data: Labels = field(default_factory=empty_mapping)


class Secret(KubeObject, frozen=True, gc=False):
    data: Labels = field(default_factory=empty_mapping)  # in base64

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, …)"  # any repr may end up in a log
