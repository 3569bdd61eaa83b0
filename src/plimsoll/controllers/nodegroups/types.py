"""`NodeGroup` and `VPSieNode` as far as we read them; fields that are not named here are left as they are.

What stands beside a field goes into the CustomResourceDefinition (`crds`), and `kubectl explain` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field

from plimsoll.kube.types.core import Condition, KubeObject, Labels, Part, Taint
from plimsoll.kube.types.resources import Index, Resource

GROUP = "autoscaler.vpsie.com"
MANAGED = f"{GROUP}/managed"
NODE_GROUP = f"{GROUP}/nodegroup"
VPSIE_NODE = f"{GROUP}/vpsienode"
DATACENTER = f"{GROUP}/datacenter"
OFFERING = f"{GROUP}/offering"
ORDERED_BY = "plimsoll.dev/ordered-by"  # the installation: the namespace of its operator
FINALIZER = f"{GROUP}/vpsienode"  # a VPSieNode stays until its machine is gone

Phase: TypeAlias = Literal[
    "Pending", "Provisioning", "Provisioned", "Joining", "Ready", "Terminating", "Deleting", "Failed"
]
PHASES: tuple[Phase, ...] = (
    "Pending", "Provisioning", "Provisioned", "Joining", "Ready", "Terminating", "Deleting", "Failed",
)  # fmt: skip


def _said(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def _span(description: str) -> Meta:
    rule = "self == '0' || self.matches('^([0-9]+(\\\\.[0-9]+)?(ms|s|m|h))+$')"
    message = 'is not a duration; write it like "90s", "10m" or "1h30m"'
    return _said(description, maxLength=64, **{"x-kubernetes-validations": [{"rule": rule, "message": message}]})


_COUNT: dict[str, Any] = {"minimum": 0, "maximum": 100_000, "format": "int32"}
_PERCENT: dict[str, Any] = {"minimum": 0, "maximum": 100, "format": "int32"}


class ScaleUpPolicy(Part, frozen=True, gc=False):
    enabled: Annotated[bool, _said("Whether nodes are added for pods that wait. The minimum is kept in any case.")] = (
        True
    )
    stabilization_window_seconds: Annotated[
        int, _said("How long a pod must have waited before a node is added for it.", minimum=0, format="int32")
    ] = 0


class ScaleDownPolicy(Part, frozen=True, gc=False):
    enabled: Annotated[bool, _said("Whether nodes that are little used are removed.")] = True
    stabilization_window_seconds: Annotated[
        int | None,
        _said(
            "How long a node must have been little used; `underutilizationDuration` wins.", minimum=0, format="int32"
        ),
    ] = None
    underutilization_duration: Annotated[str, _span("How long a node must have been little used. Default 10m.")] = ""
    cpu_threshold: Annotated[
        int, _said("A node that has less of its CPU requested, in percent, is little used.", **_PERCENT)
    ] = 50
    memory_threshold: Annotated[
        int, _said("A node that has less of its memory requested, in percent, is little used.", **_PERCENT)
    ] = 50
    cooldown_seconds: Annotated[int | None, _said("As `scaleDownCooldown`, which wins.", minimum=0, format="int32")] = (
        None
    )


class NodeGroupSpec(Part, frozen=True, gc=False):
    min_nodes: Annotated[int, _said("The group never shrinks below this.", **_COUNT)] = 0
    max_nodes: Annotated[int, _said("The group never grows beyond this.", **_COUNT)] = 0
    desired_nodes: Annotated[
        int | None, _said("At least so many nodes, whether or not pods need them; `kubectl scale` sets it.", **_COUNT)
    ] = None
    provider: Annotated[str, _said("Who makes the machines. Default vpsie.", maxLength=63)] = "vpsie"
    datacenter_id: Annotated[str, _said("Where the machines are.", maxLength=253)] = field(
        default="", name="datacenterID"
    )
    resource_identifier: Annotated[str, _said("The provider's name for this cluster.", maxLength=253)] = ""
    project: Annotated[str, _said("The provider's project that pays.", maxLength=253)] = ""
    offering_ids: Annotated[
        tuple[Annotated[str, _said("", maxLength=253)], ...],
        _said("The sizes of machine that may be used, the first that is available first.", maxItems=100),
    ] = field(default=(), name="offeringIDs")
    preferred_instance_type: Annotated[str, _said("The offering to use while it is available.", maxLength=253)] = ""
    allow_mixed_instances: Annotated[bool, _said("Whether each node may be of the offering that fits best.")] = False
    kubernetes_version: Annotated[str, _said("That the nodes run.", maxLength=63)] = ""
    os_image_id: str = field(default="", name="osImageID")
    ssh_key_ids: tuple[str, ...] = field(default=(), name="sshKeyIDs")
    labels: Annotated[Labels, _said("That the nodes carry.")] = field(default_factory=dict)
    taints: Annotated[tuple[Taint, ...], _said("That the nodes carry.")] = ()
    tags: tuple[str, ...] = ()
    notes: str = ""
    priority: Annotated[
        int, _said("With the expander `priority`: groups with a higher one grow first.", format="int32")
    ] = 0
    scale_up_policy: ScaleUpPolicy = ScaleUpPolicy()
    scale_down_policy: ScaleDownPolicy = ScaleDownPolicy()
    scale_up_batch_size: Annotated[int, _said("How many nodes are added at a time; 0: no limit.", **_COUNT)] = 0
    scale_up_cooldown: Annotated[str, _span("The pause between two additions. Default 0.")] = ""
    scale_down_cooldown: Annotated[
        str, _span("How long no node is removed after one was added or removed. 0 or absent: 10m.")
    ] = ""


class Setback(Part, frozen=True, gc=False):
    """What failed, and until when it is not tried again. Kept here because a restart must not forget it."""

    offering: Annotated[str, _said("That could not be had; empty: the whole group.")] = ""
    reason: str = ""
    message: str = ""
    failures: Annotated[int, _said("In a row.", format="int32")] = 0
    last_failure: datetime | None = None
    until: datetime | None = None


class NodeGroupStatus(Part, frozen=True, gc=False):
    current_nodes: int = 0
    desired_nodes: int = 0
    ready_nodes: int = 0
    nodes: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    last_scale_time: datetime | None = None
    last_scale_up_time: datetime | None = None
    last_scale_down_time: datetime | None = None
    created_nodes: Annotated[int, _said("The number in the name of the newest node.", format="int32")] = 0
    setbacks: tuple[Setback, ...] = ()


class NodeGroup(KubeObject, frozen=True, gc=False):
    spec: NodeGroupSpec = NodeGroupSpec()
    status: NodeGroupStatus = NodeGroupStatus()


class VPSieNodeSpec(Part, frozen=True, gc=False):
    node_group_name: str = ""
    provider: Annotated[str, _said("Who makes the machine. Default vpsie.")] = "vpsie"
    datacenter_id: str = field(default="", name="datacenterID")
    instance_type: Annotated[str, _said("The offering.")] = ""
    kubernetes_version: str = ""
    project: str = ""
    resource_identifier: str = ""
    vpsie_instance_id: Annotated[str, _said("The machine, once it is ordered.")] = field(
        default="", name="vpsieInstanceID"
    )
    node_name: str = ""
    os_image_id: str = field(default="", name="osImageID")
    ssh_key_ids: tuple[str, ...] = field(default=(), name="sshKeyIDs")


class VPSieNodeStatus(Part, frozen=True, gc=False):
    phase: Annotated[str, _said(" → ".join(PHASES[:-1]) + "; or Failed.")] = ""
    conditions: tuple[Condition, ...] = ()
    node_name: str = ""
    hostname: str = ""
    created_at: Annotated[datetime | None, _said("When a machine was first asked for.")] = None
    provisioned_at: datetime | None = None
    joined_at: datetime | None = None
    ready_at: datetime | None = None
    terminating_at: datetime | None = None
    deleted_at: Annotated[datetime | None, _said("When the machine was told to go.")] = None
    last_error: str = ""


class VPSieNode(KubeObject, frozen=True, gc=False):
    spec: VPSieNodeSpec = VPSieNodeSpec()
    status: VPSieNodeStatus = VPSieNodeStatus()

    @property
    def phase(self) -> str:
        return self.status.phase or "Pending"

    @property
    def leaving(self) -> bool:
        """On its way out, whoever wanted it: no longer one of the group's nodes."""
        return self.terminating or self.phase in ("Terminating", "Deleting", "Failed")

    @property
    def node_name(self) -> str:
        """The Node that the machine has become, or will."""
        return self.status.node_name or self.spec.node_name or self.name

    @property
    def group(self) -> str:
        return f"{self.namespace}/{self.spec.node_group_name}"


def condition_of(obj: NodeGroup | VPSieNode, kind: str) -> Condition | None:
    return next((condition for condition in obj.status.conditions if condition.type == kind), None)


def _group(node: VPSieNode) -> Iterable[str]:
    return (node.group,)


def _node(node: VPSieNode) -> Iterable[str]:
    return (node.node_name,)


def _phase(node: VPSieNode) -> Iterable[str]:
    return (node.phase,)


def _leaving(node: VPSieNode) -> Iterable[str]:
    return ("",) if node.leaving else ()


BY_GROUP = Index("group", _group)  # namespace/name
BY_NODE_NAME = Index("node name", _node)
BY_PHASE = Index("phase", _phase)
ON_THEIR_WAY_OUT = Index("leaving", _leaving)  # under ""

NODE_GROUPS = Resource(GROUP, "v1alpha1", "nodegroups", "NodeGroup", NodeGroup, may_be_absent=True)
VPSIE_NODES = Resource(
    GROUP,
    "v1alpha1",
    "vpsienodes",
    "VPSieNode",
    VPSieNode,
    may_be_absent=True,
    indexes=(BY_GROUP, BY_NODE_NAME, BY_PHASE, ON_THEIR_WAY_OUT),
)
