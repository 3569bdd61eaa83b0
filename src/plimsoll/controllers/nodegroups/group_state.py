"""What a decision about node groups reads: the cluster, the providers' machines, and the state of each group.

`controller` builds a `DecisionContext` per decision; scale-up, scale-down, drain and lifecycle read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.backoff import backoffs_after_failures
from plimsoll.controllers.nodegroups.members import GroupMembers, MembersCache
from plimsoll.controllers.nodegroups.node_template import learned_offerings
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories, ProviderInventory
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import (
    BY_GROUP,
    BY_MACHINE,
    NODE_GROUPS,
    VPSIE_NODES,
    NodeEntry,
    NodeGroup,
    OfferingBackoff,
    OfferingStatus,
    VPSieNode,
)
from plimsoll.controllers.nodegroups.usable import taints_that_stay
from plimsoll.kube.cache.store import View
from plimsoll.kube.labels import ZONE
from plimsoll.kube.types.core import Node, Pod, Taint
from plimsoll.kube.types.resources import BY_NODE, BY_PROVIDER_ID, NODES, NOT_READY, PODS
from plimsoll.providers.protocol import Machine, Offering

MIRROR = "kubernetes.io/config.mirror"


class DecisionContext(Struct, frozen=True):
    """The input of one decision."""

    view: View
    now: datetime
    settings: NodeGroupSettings
    inventories: ProviderInventories
    members_cache: MembersCache = field(default_factory=MembersCache)

    def inventory(self, provider: str) -> ProviderInventory | None:
        """The provider's machines and offerings; None if the last successful poll is too old to rely on."""
        found = self.inventories.get(provider)
        return found if found is not None and found.is_fresh(self.now, self.settings.max_inventory_age) else None

    def group_of(self, node: VPSieNode) -> NodeGroup | None:
        return self.view[NODE_GROUPS].get(node.namespace, node.spec.node_group_name)

    def members(self, group: NodeGroup) -> tuple[VPSieNode, ...]:
        return self.view[VPSIE_NODES].by(BY_GROUP, f"{group.namespace}/{group.name}")

    def node_of(self, node: VPSieNode) -> Node | None:
        """The Node of a VPSieNode: by spec.providerID, else by name unless that Node belongs to another machine."""
        machine = self.machine_of(node)
        provider_id = machine.provider_id if machine is not None else ""
        for identity in (provider_id, node.spec.vpsie_instance_id):
            found = self.view[NODES].by(BY_PROVIDER_ID, identity) if identity else ()
            if len(found) == 1:
                return found[0]
        named = self.view[NODES].get("", node.node_name)
        if named is None or not named.spec.provider_id:
            return named
        if provider_id or self._of_another_machine(named, node):
            return None
        return named

    def _of_another_machine(self, named: Node, node: VPSieNode) -> bool:
        """Whether the providerID of a Node is known to be that of another machine than the VPSieNode's."""
        full, last = named.spec.provider_id, named.spec.provider_id.rpartition("/")[2]
        if any(one.uid != node.uid for one in self.view[VPSIE_NODES].by(BY_MACHINE, last)):
            return True
        inventory = self.inventories.get(node.spec.provider)
        if inventory is None:
            return False
        return last in inventory.machines or any(one.provider_id == full for one in inventory.machines.values())

    def pods_on(self, name: str) -> tuple[Pod, ...]:
        return self.view[PODS].by(BY_NODE, name)

    def pods_to_move_from(self, name: str) -> list[Pod]:
        return pods_to_move(self.pods_on(name))

    def offering_of(self, node: VPSieNode) -> Offering | None:
        """The offering of a VPSieNode according to the last inventory, however old."""
        inventory = self.inventories.get(node.spec.provider)
        return inventory.offering(node.spec.datacenter_id, node.spec.instance_type) if inventory is not None else None

    def machine_of(self, node: VPSieNode) -> Machine | None:
        """The machine of a VPSieNode according to a fresh inventory."""
        inventory = self.inventory(node.spec.provider)
        return find_machine(inventory, node) if inventory is not None else None


class GroupState(Struct, frozen=True):
    """One group and its nodes. Counts are computed once because groups may have thousands of nodes."""

    group: NodeGroup
    members: GroupMembers
    nodes: Mapping[str, Node] = field(default_factory=dict)  # VPSieNode name → its Node, where that exists
    backoffs: tuple[OfferingBackoff, ...] = ()  # including failures that the status does not show yet
    ready: int = 0  # remaining members whose node is ready
    unready: frozenset[str] = frozenset()  # names of the remaining members whose node exists and is not ready
    zones: Mapping[str, int] = field(default_factory=dict)  # zone → number of nodes of remaining members
    offerings: tuple[
        OfferingStatus, ...
    ] = ()  # what is known of offerings, including what the status does not show yet
    target: int | None = None  # the size to which the group shrinks because desiredNodes was lowered
    taints: tuple[Taint, ...] = ()  # of new nodes: those of the spec, and start-up taints that stay

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.group.namespace}/{self.group.name}"

    @property
    def under_vpsie_crd(self) -> bool:
        """Whether its objects have the form of the VPSie autoscaler's CRDs: integer ids, objects in status.nodes."""
        by_entries = any(isinstance(entry, NodeEntry) for entry in self.group.status.nodes or ())
        return by_entries or any(isinstance(one.spec.instance_id_as_written, int) for one in self.members.ordered)

    @property
    def remaining(self) -> tuple[VPSieNode, ...]:
        """The members that are not being removed."""
        return self.members.remaining

    @property
    def current(self) -> int:
        """The size of the group: the number of remaining members, whether or not they have joined."""
        return len(self.members.remaining)

    @property
    def surplus(self) -> int:
        """How many nodes are removed whether or not they are underutilized."""
        limits = [self.group.spec.max_nodes, *([self.target] if self.target is not None else [])]
        return max(0, self.current - min(limits))

    @property
    def joined(self) -> int:
        return self.members.joined

    @property
    def all_ready(self) -> bool:
        """Whether every member has joined, none is being removed, and each one's node exists and is ready."""
        return self.joined == self.ready == len(self.nodes) == len(self.members.ordered)


def group_states(context: DecisionContext) -> list[GroupState]:
    groups = sorted(context.view[NODE_GROUPS], key=lambda one: (one.namespace, one.name))
    return [group_state(group, context) for group in groups]


def group_state(group: NodeGroup, context: DecisionContext) -> GroupState:
    members = context.members_cache.of(f"{group.namespace}/{group.name}", context.members(group))
    by_name = context.view[NODES].get
    nodes = {name: node for name, node_name in members.node_names if (node := by_name("", node_name)) is not None}
    none_removed = len(members.remaining) == len(members.ordered)
    remaining = nodes if none_removed else {name: nodes[name] for name in members.names if name in nodes}
    not_ready = {node.metadata.name for node in context.view[NODES].by(NOT_READY, "")}
    unready = (
        frozenset(name for name, node in remaining.items() if node.metadata.name in not_ready)
        if not_ready
        else frozenset()
    )
    joined = (nodes[member.name] for member in members.remaining if member.phase == "Ready" and member.name in nodes)
    zones = Counter([node.metadata.labels.get(ZONE) for node in remaining.values()])
    return GroupState(
        group,
        members,
        nodes,
        backoffs_after_failures(group, members.failed, context.settings, context.now),
        ready=len(remaining) - len(unready),
        unready=unready,
        zones={zone: count for zone, count in zones.items() if zone is not None},
        offerings=learned_offerings(group, members.first_joined, nodes),
        target=_target(group, len(members.remaining)),
        taints=(*group.spec.taints, *taints_that_stay(joined, group, context.settings)),
    )


def _target(group: NodeGroup, current: int) -> int | None:
    """The size to which a lowered desiredNodes shrinks the group; None if it was not lowered or is reached."""
    desired, before, target = group.spec.desired_nodes, group.status.requested_nodes, group.status.target_nodes
    if desired is None or before is None:
        return None
    if desired != before:
        target = desired if desired < before else None
    return target if target is not None and target < current else None


def find_machine(inventory: ProviderInventory, node: VPSieNode) -> Machine | None:
    """The machine of a VPSieNode. A machine of the same id under another key belongs to another order by now."""
    if not node.spec.vpsie_instance_id:
        return inventory.by_key(node.uid)
    found = inventory.machines.get(node.spec.vpsie_instance_id)
    return found if found is not None and found.key in ("", node.uid) else None


def belongs_to_another_order(inventory: ProviderInventory, node: VPSieNode) -> bool:
    """Whether the machine id in the VPSieNode names a machine of another order."""
    found = inventory.machines.get(node.spec.vpsie_instance_id)
    return found is not None and found.key not in ("", node.uid)


def pods_to_move(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that must be gone before their node is removed: all but DaemonSet pods, mirror pods and finished pods."""
    return [pod for pod in pods if not (pod.finished or is_daemon(pod) or MIRROR in pod.annotations)]


def is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"
