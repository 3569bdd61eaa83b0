"""The kinds `NodeGroup` and `VPSieNode`, as far as the operator reads them. Fields that are not named here are preserved.

The descriptions become part of the CustomResourceDefinitions (`crds`), where `kubectl explain` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from plimsoll.kube.types.core import Taint
from plimsoll.kube.types.meta import Condition, KubeObject, Labels, Part, Resources
from plimsoll.kube.types.resources import Index, Resource

GROUP = "autoscaler.vpsie.com"
MANAGED = f"{GROUP}/managed"
NODE_GROUP = f"{GROUP}/nodegroup"
VPSIE_NODE = f"{GROUP}/vpsienode"
DATACENTER = f"{GROUP}/datacenter"
OFFERING = f"{GROUP}/offering"
ORDERED_FOR = "plimsoll.dev/ordered-for"  # annotation: PENDING_PODS, or absent for a node of the minimum size
PENDING_PODS = "pending-pods"
ORDERED_BY = "plimsoll.dev/ordered-by"  # annotation: the namespace of the operator that ordered the node
FINALIZER = f"{GROUP}/vpsienode"  # keeps a VPSieNode until its machine is deleted

SINGLE_REPLICA = "plimsoll.dev/single-replica"  # annotation of pods: never or allow
SingleReplicas: TypeAlias = Literal["never", "allow"]

Phase: TypeAlias = Literal[
    "Pending", "Provisioning", "Provisioned", "Joining", "Ready", "Terminating", "Deleting", "Failed"
]
PHASES: tuple[Phase, ...] = (
    "Pending", "Provisioning", "Provisioned", "Joining", "Ready", "Terminating", "Deleting", "Failed",
)  # fmt: skip


def _described(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def _duration(description: str) -> Meta:
    rule = "self == '0' || self.matches('^([0-9]+(\\\\.[0-9]+)?(ms|s|m|h))+$')"
    message = 'is not a duration; write it like "90s", "10m" or "1h30m"'
    return _described(description, maxLength=64, **{"x-kubernetes-validations": [{"rule": rule, "message": message}]})


_COUNT: dict[str, Any] = {"minimum": 0, "maximum": 100_000, "format": "int32"}
_PERCENT: dict[str, Any] = {"minimum": 0, "maximum": 100, "format": "int32"}


class ScaleUpPolicy(Part, frozen=True, gc=False):
    enabled: Annotated[
        bool, _described("Whether nodes are added for pending pods. minNodes and desiredNodes apply in any case.")
    ] = True
    stabilization_window_seconds: Annotated[
        int,
        _described("How long a pod must have been pending before a node is added for it.", minimum=0, format="int32"),
    ] = 0


class ScaleDownPolicy(Part, frozen=True, gc=False):
    enabled: Annotated[bool, _described("Whether underutilized nodes are removed.")] = True
    stabilization_window_seconds: Annotated[
        int | None,
        _described(
            "How long a node must have been underutilized; `underutilizationDuration` takes precedence.",
            minimum=0,
            format="int32",
        ),
    ] = None
    underutilization_duration: Annotated[
        str, _duration("How long a node must have been underutilized before it is removed. Default 10m.")
    ] = ""
    cpu_threshold: Annotated[
        int,
        _described(
            "A node is underutilized if less of its CPU is requested, in percent, and less than memoryThreshold of its memory.",
            **_PERCENT,
        ),
    ] = 50
    memory_threshold: Annotated[
        int,
        _described(
            "A node is underutilized if less of its memory is requested, in percent, and less than cpuThreshold of its CPU.",
            **_PERCENT,
        ),
    ] = 50
    single_replicas: Annotated[
        str,
        _described(
            "Whether nodes are drained although a pod is the only replica of its workload: never or allow. Default: the configuration.",
            enum=["", "never", "allow"],
        ),
    ] = ""
    cooldown_seconds: Annotated[
        int | None, _described("Same as `scaleDownCooldown`, which takes precedence.", minimum=0, format="int32")
    ] = None


class NodeGroupSpec(Part, frozen=True, gc=False):
    min_nodes: Annotated[
        int, _described("The smallest number of nodes; the group never shrinks below it.", **_COUNT)
    ] = 0
    max_nodes: Annotated[int, _described("The largest number of nodes; the group never grows beyond it.", **_COUNT)] = 0
    desired_nodes: Annotated[
        int | None,
        _described(
            "Keep at least this many nodes, whether or not pods need them; `kubectl scale` sets it. Lowering it removes the "
            "difference at once, as far as the safety checks allow.",
            **_COUNT,
        ),
    ] = None
    provider: Annotated[str, _described("The provider that makes the machines. Default vpsie.", maxLength=63)] = "vpsie"
    datacenter_id: Annotated[str, _described("The provider's datacenter in which the machines run.", maxLength=253)] = (
        field(default="", name="datacenterID")
    )
    resource_identifier: Annotated[str, _described("The provider's name for this cluster.", maxLength=253)] = ""
    project: Annotated[str, _described("The provider's project to which the machines are billed.", maxLength=253)] = ""
    offering_ids: Annotated[
        tuple[Annotated[str, _described("", maxLength=253)], ...],
        _described("The machine sizes that the group may use; the first available one is used first.", maxItems=100),
    ] = field(default=(), name="offeringIDs")
    preferred_instance_type: Annotated[
        str, _described("The offering to use as long as it is available.", maxLength=253)
    ] = ""
    allow_mixed_instances: Annotated[
        bool, _described("Whether nodes may be of different offerings, each the one that fits best.")
    ] = False
    kubernetes_version: Annotated[str, _described("The Kubernetes version of the nodes.", maxLength=63)] = ""
    os_image_id: str = field(default="", name="osImageID")
    ssh_key_ids: tuple[str, ...] = field(default=(), name="sshKeyIDs")
    labels: Annotated[Labels, _described("Labels of the nodes.")] = field(default_factory=dict)
    taints: Annotated[tuple[Taint, ...], _described("Taints of the nodes.")] = ()
    startup_taints: Annotated[
        tuple[Taint, ...],
        _described(
            "Taints that new nodes have until an agent removes them. Until then, or until joiningTimeout has passed, such a node "
            "counts as coming.",
            maxItems=50,
        ),
    ] = ()
    reserved: Annotated[
        Resources,
        _described(
            "Resources of a machine that pods cannot use (kube-reserved, system-reserved, eviction threshold). Applies to offerings "
            "of which no node has joined yet.",
            maxProperties=50,
        ),
    ] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    notes: str = ""
    priority: Annotated[
        int, _described("With the expander `priority`, groups with a higher priority grow first.", format="int32")
    ] = 0
    scale_up_policy: ScaleUpPolicy = ScaleUpPolicy()
    scale_down_policy: ScaleDownPolicy = ScaleDownPolicy()
    scale_up_batch_size: Annotated[
        int, _described("How many nodes are added at a time; 0 means no limit.", **_COUNT)
    ] = 0
    scale_up_cooldown: Annotated[str, _duration("The pause between two scale-ups. Default 0.")] = ""
    scale_down_cooldown: Annotated[
        str, _duration("How long no node is removed after one was added or removed. 0 or absent means 10m.")
    ] = ""


class OfferingBackoff(Part, frozen=True, gc=False):
    """A pause after failures: of one offering, or of the whole group. It is in the status because it must survive a restart."""

    offering: Annotated[str, _described("The offering that failed; empty means the whole group.")] = ""
    reason: str = ""
    message: str = ""
    failures: Annotated[int, _described("Consecutive failures.", format="int32")] = 0
    last_failure: datetime | None = None
    until: datetime | None = None


class OfferingStatus(Part, frozen=True, gc=False):
    """What was learned from the nodes of one offering. It is in the status because it must survive the last node and a restart."""

    id: str = ""
    datacenter_id: str = field(default="", name="datacenterID")
    allocatable: Annotated[Resources, _described("Allocatable resources of a node of the offering.")] = field(
        default_factory=dict
    )


class NodeEntry(Part, frozen=True, gc=False):
    """An entry of `status.nodes` under the CRD of the VPSie autoscaler, which lists objects instead of names."""

    node_name: str = ""


class NodeGroupStatus(Part, frozen=True, gc=False):
    current_nodes: int | None = None
    desired_nodes: int | None = None
    ready_nodes: int | None = None
    observed_generation: int = 0
    nodes: tuple[str | NodeEntry, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    last_scale_time: datetime | None = None
    last_scale_up_time: datetime | None = None
    last_scale_down_time: datetime | None = None
    requested_nodes: Annotated[
        int | None, _described("spec.desiredNodes when it was last read; a lower one removes nodes.", format="int32")
    ] = None
    target_nodes: Annotated[
        int | None,
        _described(
            "The size to which the group shrinks because desiredNodes was lowered; absent once it is reached.",
            format="int32",
        ),
    ] = None
    offerings: tuple[OfferingStatus, ...] = ()
    created_nodes: Annotated[int, _described("The number in the name of the newest node.", format="int32")] = 0
    backoffs: Annotated[
        tuple[OfferingBackoff, ...],
        _described("Pauses after failures: which offering, or the whole group, is not tried until when."),
    ] = field(default=(), name="setbacks")


class NodeGroup(KubeObject, frozen=True, gc=False):
    spec: NodeGroupSpec = NodeGroupSpec()
    status: NodeGroupStatus = NodeGroupStatus()


class VPSieNodeSpec(Part, frozen=True, gc=False):
    node_group_name: str = ""
    provider: Annotated[str, _described("The provider that makes the machine. Default vpsie.")] = "vpsie"
    datacenter_id: str = field(default="", name="datacenterID")
    instance_type: Annotated[str, _described("The offering.")] = ""
    kubernetes_version: str = ""
    project: str = ""
    resource_identifier: str = ""
    # A string under our CRD; an integer, 0 before the order, under the CRD of the VPSie autoscaler.
    instance_id_as_written: str | int = field(default="", name="vpsieInstanceID")
    node_name: str = ""
    os_image_id: str = field(default="", name="osImageID")
    ssh_key_ids: tuple[str, ...] = field(default=(), name="sshKeyIDs")

    @property
    def vpsie_instance_id(self) -> str:
        """The provider's id of the machine; empty before it is ordered."""
        return str(self.instance_id_as_written) if self.instance_id_as_written else ""

    def instance_id_to_write(self, machine_id: str) -> str | int:
        """The id in the form that the installed CRD accepts, which is the form of the value that is there."""
        numeric = isinstance(self.instance_id_as_written, int) and machine_id.isdecimal()
        return int(machine_id) if numeric else machine_id


class VPSieNodeStatus(Part, frozen=True, gc=False):
    observed_generation: int = 0
    phase: Annotated[str, _described(" → ".join(PHASES[:-1]) + "; or Failed.")] = ""
    conditions: tuple[Condition, ...] = ()
    node_name: str = ""
    hostname: str = ""
    created_at: Annotated[datetime | None, _described("When the machine was first requested.")] = None
    provisioned_at: datetime | None = None
    joined_at: datetime | None = None
    ready_at: datetime | None = None
    first_pod_at: Annotated[
        datetime | None, _described("When a pod that is not of a DaemonSet was first seen on the node.")
    ] = None
    terminating_at: datetime | None = None
    deleted_at: Annotated[datetime | None, _described("When the deletion of the machine was requested.")] = None
    last_error: str = ""


class VPSieNode(KubeObject, frozen=True, gc=False):
    spec: VPSieNodeSpec = VPSieNodeSpec()
    status: VPSieNodeStatus = VPSieNodeStatus()

    @property
    def phase(self) -> str:
        return self.status.phase or "Pending"

    @property
    def being_removed(self) -> bool:
        """Whether the node is being removed, for whatever reason; it no longer counts as one of the group's nodes."""
        return self.terminating or self.phase in ("Terminating", "Deleting", "Failed")

    @property
    def node_name(self) -> str:
        """The name of the machine's Node: the actual one once it is known, else the expected one."""
        return self.status.node_name or self.spec.node_name or self.name

    @property
    def group(self) -> str:
        return f"{self.namespace}/{self.spec.node_group_name}"


def find_condition(obj: NodeGroup | VPSieNode, kind: str) -> Condition | None:
    return next((condition for condition in obj.status.conditions if condition.type == kind), None)


def _group(node: VPSieNode) -> Iterable[str]:
    return (node.group,)


def _node(node: VPSieNode) -> Iterable[str]:
    return (node.node_name,)


def _phase(node: VPSieNode) -> Iterable[str]:
    return (node.phase,)


def _machine(node: VPSieNode) -> Iterable[str]:
    return dict.fromkeys(one for one in (node.spec.vpsie_instance_id, node.uid) if one)


def _being_removed(node: VPSieNode) -> Iterable[str]:
    return ("",) if node.being_removed else ()


BY_GROUP = Index("group", _group)  # namespace/name
BY_NODE_NAME = Index("node name", _node)
BY_MACHINE = Index("machine", _machine)  # by the id of the machine, and by the key under which it was ordered
BY_PHASE = Index("phase", _phase)
BEING_REMOVED = Index("being removed", _being_removed)  # under ""

NODE_GROUPS = Resource(GROUP, "v1alpha1", "nodegroups", "NodeGroup", NodeGroup, may_be_absent=True)
VPSIE_NODES = Resource(
    GROUP,
    "v1alpha1",
    "vpsienodes",
    "VPSieNode",
    VPSieNode,
    may_be_absent=True,
    indexes=(BY_GROUP, BY_NODE_NAME, BY_MACHINE, BY_PHASE, BEING_REMOVED),
)
