"""What a new node of a group will be: its offering, allocatable resources, labels and taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

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
)
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import Labels, Resources
from plimsoll.kube.types.quantity import Quantity
from plimsoll.providers.protocol import Offering

_PODS = Quantity(110_000)  # the kubelet's default, in thousandths


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


class NodeSizes:
    """Allocatable resources per offering: those of an existing node of the offering, else the whole machine's capacity."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = nodes
        self._known: dict[tuple[str, str], Resources] = {}

    def allocatable(self, datacenter: str, offering: Offering) -> Mapping[str, Quantity]:
        key = (datacenter, offering.id)
        if key not in self._known:
            found = next((node.status.allocatable for node in self._nodes if _is_of(node, *key)), offering.capacity)
            self._known[key] = found if "pods" in found else {**found, "pods": _PODS}
        return self._known[key]


def _is_of(node: Node, datacenter: str, offering: str) -> bool:
    labels = node.metadata.labels
    same = labels.get(OFFERING) == offering and labels.get(DATACENTER, "") == datacenter
    return same and node.ready and bool(node.status.allocatable)
