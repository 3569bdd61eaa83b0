"""Inputs and results of the packing engine.

**What a result guarantees.** `Packing.placements` is in an order that kube-scheduler could have followed: each pod
obeys every hard constraint when it is placed, with everything before it in place. A later pod breaks the topology
spread of an earlier one only where it would otherwise stay unplaced (kube-scheduler evaluates a spread only when it
places the pod that has it). An unplaced pod fits on no node of the finished plan and on no further new node; its
reasons in `Packing.unplaced` describe the final state of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from plimsoll.kube.types.core import Pod, Taint
from plimsoll.kube.types.meta import Labels, Resources

EXISTING = "existing nodes"  # key in `Packing.unplaced`, beside template names, for existing and coming nodes

HOSTNAME = "kubernetes.io/hostname"


class Constraint(StrEnum):
    """The constraint that fails. The values are stable codes that people can search for."""

    NODE_UNKNOWN = "NodeUnknown"  # no node has that name
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_SELECTOR = "NodeSelector"  # nodeSelector or required node affinity
    TAINT = "Taint"
    HOST_PORT = "HostPort"
    RESOURCES = "Resources"  # any resource, including the number of pods
    VOLUME = "Volume"  # a bound volume is elsewhere, or a claim does not exist
    VOLUME_ATTACH_LIMIT = "VolumeAttachLimit"  # the node's CSI driver cannot attach another volume
    TOPOLOGY_SPREAD = "TopologySpread"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingAntiAffinity"  # the anti-affinity of a running pod excludes this one
    GATED = "SchedulingGated"
    DEVICE_CLAIM = "DeviceClaim"  # the pod uses dynamic resource allocation, which is not modelled
    UNKNOWN_CONSTRAINT = "UnknownConstraint"  # a field of the pod that may constrain scheduling and is not modelled
    PRIORITY = "LowPriority"  # below the priority that triggers scale-up
    LIMIT = "NodeLimit"  # the template may not add another node
    OFFERING = "NoOffering"  # the template has no offering, or none is available


class Unschedulable(Struct, frozen=True):
    """The first constraint that fails, as a code and a message with figures."""

    rule: Constraint
    message: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.message}"


class NodeOffering(Struct, frozen=True):
    """An instance type in a zone with a capacity type. The node carries its labels."""

    name: str
    labels: Labels
    allocatable: Resources  # what pods can request on such a node, including "pods" for their number
    price: float
    available: int | None = None  # how many are available; None: no known limit


class Template(Struct, frozen=True):
    """A kind of node that can be added: one of its offerings, plus labels, taints and DaemonSet pods.

    A new node carries the template's labels, those of its offering (which take precedence), and
    `kubernetes.io/hostname` with its own name.
    """

    name: str
    offerings: tuple[NodeOffering, ...]
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_nodes: int | None = None  # how many more nodes may be added; None: no limit
    daemons: tuple[
        Pod, ...
    ] = ()  # one pod per DaemonSet; those that a node of this template admits reduce its allocatable
    priority: int = 0  # templates of a higher priority are tried first; equal ones compete by price


class ComingNode(Struct, frozen=True):
    """A node that was ordered and does not exist yet. Pods are planned onto it as if it did.

    Its host name is its name, unless its labels say otherwise.
    """

    name: str
    labels: Labels
    allocatable: Resources
    taints: tuple[Taint, ...] = ()  # permanent taints only, without start-up taints that will be removed
    daemons: tuple[Pod, ...] = ()


class NewNode(Struct, frozen=True):
    """A node to add. `candidates` are all offerings that hold its pods, cheapest first; `offering` is the preferred
    one.
    """

    name: str
    template: str
    offering: str
    candidates: tuple[str, ...]
    pods: tuple[str, ...]  # UIDs
    requested: Resources  # total of its pods and DaemonSet pods
    price: float  # price of `offering`


class Packing(Struct, frozen=True):
    """Where each pod would run."""

    placements: Mapping[str, str]  # pod UID → name of an existing, coming or new node, in the order of placement
    new_nodes: tuple[NewNode, ...] = ()
    unplaced: Mapping[str, Mapping[str, Unschedulable]] = field(
        default_factory=dict
    )  # pod UID → template name or EXISTING → reason
    notes: Mapping[str, str] = field(default_factory=dict)  # pod UID → what the plan could not know (an unbound claim)

    @property
    def price(self) -> float:
        return sum(node.price for node in self.new_nodes)


class Removal(Struct, frozen=True):
    """Whether a node can be removed, and where its pods would run then. Exactly one of `plan` and `reason` is set."""

    node: str
    plan: Mapping[str, str] | None = None  # pod UID → node name; empty if no pod would have to move
    reason: Unschedulable | None = None
