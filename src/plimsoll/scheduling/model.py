"""What the packing engine is asked about and what it answers.

**What an answer promises.** `Packing.placements` is in an order that kube-scheduler could have followed: each pod obeys every
hard rule at the moment it is placed, with everything before it already there. Beyond that, a later pod breaks the topology
spread of one that was placed earlier only where it would otherwise stay unplaced (kube-scheduler looks at a spread only when it
places the pod that has it). An unplaced pod fits on no node of the finished plan and on no further new node: what
`Packing.unplaced` says of it is true of the state that the plan ends in.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from plimsoll.kube.types.core import Pod, Taint
from plimsoll.kube.types.meta import Labels, Resources

EXISTING = (
    "existing nodes"  # the key, beside the names of templates, under which `Packing.unplaced` speaks of nodes at hand
)

HOSTNAME = "kubernetes.io/hostname"


class Constraint(StrEnum):
    """Which rule says no. The values are codes that people can search for."""

    NODE_UNKNOWN = "NodeUnknown"  # there is no node of that name
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_SELECTOR = "NodeSelector"  # nodeSelector or required node affinity
    TAINT = "Taint"
    HOST_PORT = "HostPort"
    RESOURCES = "Resources"  # of any kind, also the number of pods
    VOLUME = "Volume"  # a bound volume lives elsewhere, or a claim does not exist
    TOPOLOGY_SPREAD = "TopologySpread"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_ANTI_AFFINITY = "ExistingAntiAffinity"  # a pod that is there wants this one away
    GATED = "SchedulingGated"
    PRIORITY = "LowPriority"  # below the priority for which new nodes are made
    LIMIT = "NodeLimit"  # the template may not make another node
    OFFERING = "NoOffering"  # the template has no offering at all, or none is left


class Unschedulable(Struct, frozen=True):
    """The first rule that says no, as a code and in words with figures."""

    rule: Constraint
    message: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.message}"


class Offering(Struct, frozen=True):
    """Something that can be bought: an instance type in a zone with a capacity type. Its labels become the node's."""

    name: str
    labels: Labels
    allocatable: Resources  # what pods can ask for on such a node, with "pods" for their number
    price: float
    available: int | None = None  # how many can still be had; None: no limit is known


class Template(Struct, frozen=True):
    """A kind of node that can be made: one of its offerings, plus labels, taints and the DaemonSets that will run there.

    A new node carries the template's labels, those of its offering (which win), and `kubernetes.io/hostname` with its own name.
    """

    name: str
    offerings: tuple[Offering, ...]
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_nodes: int | None = None  # how many more nodes may be made; None: no limit
    daemons: tuple[
        Pod, ...
    ] = ()  # one pod a DaemonSet; those that a node of this template admits take their share of it
    priority: int = 0  # templates of a higher priority are tried first; equal ones compete by price


class ComingNode(Struct, frozen=True):
    """A node that has been ordered and is not there yet: pods are planned onto it as if it were.

    Its host name is its name, unless its labels say otherwise.
    """

    name: str
    labels: Labels
    allocatable: Resources
    taints: tuple[Taint, ...] = ()  # those that stay; start-up taints that will be taken away do not belong here
    daemons: tuple[Pod, ...] = ()


class NewNode(Struct, frozen=True):
    """A node to make. `candidates` are all offerings that hold its pods, cheapest first; `offering` is the one to prefer."""

    name: str
    template: str
    offering: str
    candidates: tuple[str, ...]
    pods: tuple[str, ...]  # UIDs
    requested: Resources  # by its pods and daemons together
    price: float  # of `offering`


class Packing(Struct, frozen=True):
    """Where each pod would run."""

    placements: Mapping[str, str]  # pod UID → name of an existing, coming or new node, in the order of placement
    new_nodes: tuple[NewNode, ...] = ()
    unplaced: Mapping[str, Mapping[str, Unschedulable]] = field(
        default_factory=dict
    )  # pod UID → template name or EXISTING → why
    notes: Mapping[str, str] = field(default_factory=dict)  # pod UID → what the plan could not know (an unbound claim)

    @property
    def price(self) -> float:
        return sum(node.price for node in self.new_nodes)


class Removal(Struct, frozen=True):
    """Whether a node can go, and where each of its pods would run then. Exactly one of `plan` and `reason` is given."""

    node: str
    plan: Mapping[str, str] | None = None  # pod UID → node name; empty for a node without pods that would have to move
    reason: Unschedulable | None = None
