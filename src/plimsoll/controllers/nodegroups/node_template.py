"""What a node of a group will be: its offering, its size, its labels and taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from plimsoll.controllers.nodegroups.provider_inventory import Sighting
from plimsoll.controllers.nodegroups.types import (
    DATACENTER,
    MANAGED,
    NODE_GROUP,
    OFFERING,
    VPSIE_NODE,
    NodeGroup,
    Setback,
)
from plimsoll.kube.types.core import Labels, Node, Resources, Taint
from plimsoll.kube.types.quantity import Quantity
from plimsoll.providers.protocol import Offering

_PODS = Quantity(110_000)  # what a kubelet admits unless it is told otherwise


def usable_offerings(
    group: NodeGroup, setbacks: Sequence[Setback], sighting: Sighting, now: datetime
) -> list[Offering]:
    """What a new node may be, the one to use first: the preferred one, then the others as the group lists them.

    Left out is what is not sold in the datacenter, what is sold out, and what failed lately.
    """
    spec = group.spec
    order = list(dict.fromkeys((spec.preferred_instance_type, *spec.offering_ids)))
    found = []
    for offering_id in order:
        offering = sighting.offering(spec.datacenter_id, offering_id)
        if offering is None or not offering.available or not offering.sold_in(spec.datacenter_id):
            continue
        if offering_id in spec.offering_ids and setback_of(setbacks, now, offering_id) is None:
            found.append(offering)
    return found if spec.allow_mixed_instances else found[:1]


def setback_of(setbacks: Sequence[Setback], now: datetime, offering: str = "") -> Setback | None:
    """What keeps the group (or one of its offerings) from being tried now."""
    for setback in setbacks:
        if setback.offering == offering and setback.until is not None and setback.until > now:
            return setback
    return None


def node_labels(group: NodeGroup, offering: Offering | str) -> dict[str, str]:
    """That nodes of the group carry; each one's own name comes on top."""
    sold: Labels = {} if isinstance(offering, str) else offering.labels
    offering_id = offering if isinstance(offering, str) else offering.id
    return {
        **sold,
        **group.spec.labels,
        MANAGED: "true",
        NODE_GROUP: group.name,
        DATACENTER: group.spec.datacenter_id,
        OFFERING: offering_id,
    }


def own_labels(group: NodeGroup, offering: Offering | str, name: str) -> dict[str, str]:
    return {**node_labels(group, offering), VPSIE_NODE: name}


def lasting_taints(group: NodeGroup) -> tuple[Taint, ...]:
    return group.spec.taints


class Sizes:
    """What pods can ask for on a node of an offering: as on a node of it that is there, else all that the machine has."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = nodes
        self._known: dict[tuple[str, str], Resources] = {}

    def allocatable(self, datacenter: str, offering: Offering) -> Mapping[str, Quantity]:
        place = (datacenter, offering.id)
        if place not in self._known:
            found = next((node.status.allocatable for node in self._nodes if _is_of(node, *place)), offering.capacity)
            self._known[place] = found if "pods" in found else {**found, "pods": _PODS}
        return self._known[place]


def _is_of(node: Node, datacenter: str, offering: str) -> bool:
    labels = node.metadata.labels
    same = labels.get(OFFERING) == offering and labels.get(DATACENTER, "") == datacenter
    return same and node.ready and bool(node.status.allocatable)
