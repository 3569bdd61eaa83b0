"""What a new node of a group will be: its offering, allocatable resources, labels and taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from plimsoll.controllers.nodegroups.backoff import active_backoff
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventory
from plimsoll.controllers.nodegroups.types import (
    DATACENTER,
    MANAGED,
    NODE_GROUP,
    OFFERING,
    VPSIE_NODE,
    NodeGroup,
    OfferingBackoff,
    OfferingStatus,
)
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import Labels, Resources
from plimsoll.kube.types.quantity import Quantity
from plimsoll.providers.protocol import Offering

if TYPE_CHECKING:
    from plimsoll.controllers.nodegroups.group_state import GroupState

_PODS = Quantity(110_000)  # the kubelet's default, in thousandths
MAX_REMEMBERED = 100  # offerings in the status of a group


def usable_offerings(
    group: NodeGroup, backoffs: Sequence[OfferingBackoff], inventory: ProviderInventory, now: datetime
) -> list[Offering]:
    """The offerings that a new node may have: the preferred one first, then the others in the order of the group's spec.

    Leaves out offerings that are not sold in the datacenter, are sold out, or are paused after a failure. Without
    allowMixedInstances the result has at most one element.
    """
    spec = group.spec
    order = list(dict.fromkeys((spec.preferred_instance_type, *spec.offering_ids)))
    found = []
    for offering_id in order:
        offering = inventory.offering(spec.datacenter_id, offering_id)
        if offering is None or not offering.available or not offering.sold_in(spec.datacenter_id):
            continue
        if offering_id in spec.offering_ids and active_backoff(backoffs, now, offering_id) is None:
            found.append(offering)
    return found if spec.allow_mixed_instances else found[:1]


def node_labels(group: NodeGroup, offering: Offering | str) -> dict[str, str]:
    """The labels that all nodes of a group with this offering have."""
    of_offering: Labels = {} if isinstance(offering, str) else offering.labels
    offering_id = offering if isinstance(offering, str) else offering.id
    return {
        **of_offering,
        **group.spec.labels,
        MANAGED: "true",
        NODE_GROUP: group.name,
        DATACENTER: group.spec.datacenter_id,
        OFFERING: offering_id,
    }


def member_labels(group: NodeGroup, offering: Offering | str, name: str) -> dict[str, str]:
    """The labels of the node of one VPSieNode."""
    return {**node_labels(group, offering), VPSIE_NODE: name}


def learned_offerings(
    group: NodeGroup, first_joined: Mapping[str, tuple[str, ...]], nodes: Mapping[str, Node]
) -> tuple[OfferingStatus, ...]:
    """The allocatable resources of each offering: of its first joined nodes, else as the group's status remembers them.

    A resource that the status remembers and the nodes do not offer now is kept: a device plug-in may be restarting.
    """
    datacenter = group.spec.datacenter_id
    known = {(one.datacenter_id, one.id): one for one in group.status.offerings}
    for offering, names in first_joined.items():
        samples = [nodes[name].status.allocatable for name in names if name in nodes and nodes[name].ready]
        best = max(samples, key=lambda one: sum(amount.milli > 0 for amount in one.values()), default=None)
        if not best:
            continue
        before = known.get((datacenter, offering))
        kept = before.allocatable if before is not None else {}
        lost = {
            name: amount for name, amount in kept.items() if name not in best or best[name].milli <= 0 < amount.milli
        }
        allocatable = {**best, **lost}
        if before is None or before.allocatable != allocatable:
            known[datacenter, offering] = OfferingStatus(offering, datacenter, allocatable)
    return tuple(known[key] for key in sorted(known))[:MAX_REMEMBERED]


class NodeSizes:
    """Allocatable resources per offering: as learned by the group, by another group, or the capacity minus `reserved`."""

    def __init__(self, groups: Iterable[GroupState]) -> None:
        self._learned: dict[tuple[str, str, str], Resources] = {}  # provider, datacenter, offering
        self._joining: dict[tuple[str, str, str], Resources] = {}  # the same, of a node that is not usable yet
        for group in groups:
            for one in group.offerings:
                key = (group.group.spec.provider, one.datacenter_id, one.id)
                self._learned.setdefault(key, one.allocatable)
            if group.joined != group.current:
                self._add_joining(group)

    def _add_joining(self, group: GroupState) -> None:
        for member in group.remaining:
            if member.phase != "Ready" and member.name in group.nodes:
                key = (group.group.spec.provider, member.spec.datacenter_id, member.spec.instance_type)
                self._joining.setdefault(key, group.nodes[member.name].status.allocatable)

    def allocatable(self, group: GroupState, offering: Offering) -> Mapping[str, Quantity]:
        spec = group.group.spec
        own = (one for one in group.offerings if (one.datacenter_id, one.id) == (spec.datacenter_id, offering.id))
        learned = next(own, None)
        key = (spec.provider, spec.datacenter_id, offering.id)
        found = learned.allocatable if learned is not None else self._learned.get(key)
        if found is None:
            # A node that is still joining shows what the kubelet leaves of a machine, but not what device plug-ins will add.
            actual = {name: amount for name, amount in self._joining.get(key, {}).items() if amount.milli > 0}
            whole = {name: _less(amount, spec.reserved.get(name)) for name, amount in offering.capacity.items()}
            found = {**whole, **actual}
        return found if "pods" in found else {**found, "pods": _PODS}


def _less(amount: Quantity, reserved: Quantity | None) -> Quantity:
    return amount if reserved is None else Quantity(max(0, amount.milli - reserved.milli))
