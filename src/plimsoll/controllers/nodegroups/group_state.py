"""What a decision about node groups looks at, gathered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.backoff import with_failures
from plimsoll.controllers.nodegroups.members import Members, Roll
from plimsoll.controllers.nodegroups.provider_inventory import Sighting, Sightings
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import BY_GROUP, NODE_GROUPS, VPSIE_NODES, NodeGroup, Setback, VPSieNode
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import BY_NODE, NODES, NOT_READY, PODS
from plimsoll.providers.protocol import Machine

MIRROR = "kubernetes.io/config.mirror"
ZONE = "topology.kubernetes.io/zone"
_STARTING = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)


class Seen(Struct, frozen=True):
    view: View
    now: datetime
    settings: NodeGroupSettings
    sightings: Sightings
    roll: Roll = field(default_factory=Roll)

    def sighting(self, provider: str) -> Sighting | None:
        """What the provider said, unless that is too long ago to rely on."""
        found = self.sightings.of(provider)
        return found if found is not None and found.is_fresh(self.now, self.settings.max_sighting_age) else None

    def group_of(self, node: VPSieNode) -> NodeGroup | None:
        return self.view[NODE_GROUPS].get(node.namespace, node.spec.node_group_name)

    def members(self, group: NodeGroup) -> tuple[VPSieNode, ...]:
        return self.view[VPSIE_NODES].by(BY_GROUP, f"{group.namespace}/{group.name}")

    def node_of(self, node: VPSieNode) -> Node | None:
        return self.view[NODES].get("", node.node_name)

    def pods_on(self, name: str) -> tuple[Pod, ...]:
        return self.view[PODS].by(BY_NODE, name)

    def must_move_from(self, name: str) -> list[Pod]:
        return must_move(self.pods_on(name))

    def machine_of(self, node: VPSieNode) -> Machine | None:
        """The machine behind a VPSieNode as a fresh sighting shows it."""
        sighting = self.sighting(node.spec.provider)
        return machine_in(sighting, node) if sighting is not None else None


class GroupSeen(Struct, frozen=True):
    """One group and its nodes; what follows from them is worked out once, for groups may have thousands."""

    group: NodeGroup
    its: Members
    nodes: Mapping[str, Node] = field(default_factory=dict)  # by the member's name
    setbacks: tuple[Setback, ...] = ()  # as they are with every failure that is seen now
    ready: int = 0  # of those that stay
    unready: frozenset[str] = frozenset()  # the names of those that stay and whose node is there and not ready
    zones: Mapping[str, int] = field(default_factory=dict)  # how many of those that stay are in each zone

    @property
    def key(self) -> str:
        return f"{self.group.namespace}/{self.group.name}"

    @property
    def members(self) -> tuple[VPSieNode, ...]:
        return self.its.ordered

    @property
    def staying(self) -> tuple[VPSieNode, ...]:
        """The members that are not on their way out."""
        return self.its.staying

    @property
    def current(self) -> int:
        return len(self.its.staying)

    @property
    def joined(self) -> int:
        return self.its.joined

    @property
    def whole(self) -> bool:
        """Every member has come, none leaves, and each one's node is there and ready."""
        return self.joined == self.ready == len(self.nodes) == len(self.members)


def groups_in(seen: Seen) -> list[GroupSeen]:
    groups = sorted(seen.view[NODE_GROUPS], key=lambda one: (one.namespace, one.name))
    return [group_with(group, seen) for group in groups]


def group_with(group: NodeGroup, seen: Seen) -> GroupSeen:
    its = seen.roll.of(f"{group.namespace}/{group.name}", seen.members(group))
    by_name = seen.view[NODES].get
    nodes = {name: node for name, place in its.places if (node := by_name("", place)) is not None}
    all_stay = len(its.staying) == len(its.ordered)
    there = nodes if all_stay else {name: nodes[name] for name in its.names if name in nodes}
    not_ready = {node.metadata.name for node in seen.view[NODES].by(NOT_READY, "")}
    unready = frozenset(name for name, node in there.items() if node.metadata.name in not_ready) if not_ready else None
    zones = Counter([node.metadata.labels.get(ZONE) for node in there.values()])
    return GroupSeen(
        group, its, nodes, with_failures(group, its.failed, seen.settings, seen.now),
        ready=len(there) - len(unready or ()),
        unready=unready or frozenset(),
        zones={zone: count for zone, count in zones.items() if zone is not None},
    )  # fmt: skip


def machine_in(sighting: Sighting, node: VPSieNode) -> Machine | None:
    """The machine behind a VPSieNode. One of the same id that was ordered under another key is someone else's by now."""
    if not node.spec.vpsie_instance_id:
        return sighting.by_key(node.uid)
    found = sighting.machines.get(node.spec.vpsie_instance_id)
    return found if found is not None and found.key in ("", node.uid) else None


def is_anothers(sighting: Sighting, node: VPSieNode) -> bool:
    """Whether the id that stands in the VPSieNode names a machine of another order."""
    found = sighting.machines.get(node.spec.vpsie_instance_id)
    return found is not None and found.key not in ("", node.uid)


def takes_pods(node: Node) -> bool:
    """Ready, and free of the taints that a new node has until everything about it is: pods can be bound to it."""
    return node.ready and not any(taint.key in _STARTING for taint in node.spec.taints)


def must_move(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that have to leave before their node may: all but daemons, mirrors of static pods and those that are finished."""
    return [pod for pod in pods if not (pod.finished or is_daemon(pod) or MIRROR in pod.annotations)]


def is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"
