"""Which node of a managed cluster came of which order. VPSie does not say, so it is worked out and written down.

An order for a node carries neither a name nor a key; its answer is mostly just `true`, and the node turns up in the cluster's list
some time later. So what was there is written down before, and what is new afterwards is ours: as long as all orders that wait are
for the same kind of node, it does not matter which is which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.providers.protocol import Machine, MachineState
from plimsoll.providers.vpsie.replies import ClusterNode

# VPSie makes nodes in its own time; the reference implementation looks for one for as long.
TURNS_UP_WITHIN = timedelta(minutes=15)
# A node that lists stop showing is gone; one that has just turned up may be hidden by a list that lags.
LISTED_WITHIN = timedelta(minutes=2)
FORGOTTEN_AFTER = timedelta(hours=1)


class Order(Struct, frozen=True):
    """One machine, from before its order to its end."""

    key: str
    name: str
    group: str
    cluster: str
    offering: str
    datacenter: str
    ordered_at: datetime
    before: tuple[str, ...]  # the nodes that were there
    answered: bool = False  # VPSie said yes
    unwanted: bool = False  # deleted before its node was there
    node: str = ""  # VPSie's identifier
    found_at: datetime | None = None  # when a list first showed the node
    missing_since: datetime | None = None  # since when lists do not show it any more

    def overdue(self, now: datetime) -> bool:
        return self.found_at is None and now - self.ordered_at > TURNS_UP_WITHIN

    def over(self, now: datetime) -> bool:
        """Whether nothing can come of it any more."""
        if self.missing_since is not None:
            return now - self.missing_since > FORGOTTEN_AFTER
        return self.unwanted and not self.node and now - self.ordered_at > FORGOTTEN_AFTER

    def gone(self, nodes: Sequence[ClusterNode], now: datetime) -> bool:
        """Whether its node was there and is not any more."""
        if self.found_at is None or any(node.identifier == self.node for node in nodes):
            return False
        return now - self.found_at > LISTED_WITHIN


class Sorted(Struct, frozen=True):
    orders: tuple[Order, ...]
    strangers: tuple[str, ...] = ()  # new nodes, more than were ordered: nobody can tell which are ours


def sort_out(orders: Iterable[Order], nodes: Sequence[ClusterNode], now: datetime) -> Sorted:
    """The orders of one cluster, with the nodes that came of them."""
    orders = sorted(orders, key=lambda order: (order.ordered_at, order.key))
    claimed = {order.node for order in orders if order.node}
    # Those that nobody counts on any more come last: a node that is very late is better deleted than forgotten.
    waiting = sorted((one for one in orders if not one.node and not one.over(now)), key=lambda one: one.overdue(now))
    new = [node.identifier for node in nodes if node.identifier not in claimed]
    new = [name for name in new if any(name not in order.before for order in waiting)]
    if len(new) > len(waiting):
        return Sorted(tuple(_seen(order, nodes, now) for order in orders), tuple(new))
    found: dict[str, str] = {}
    for order in waiting:
        mine = next((name for name in new if name not in order.before), None)
        if mine is not None:
            new.remove(mine)
            found[order.key] = mine
    claims = [replace(one, node=found[one.key], answered=True) if one.key in found else one for one in orders]
    return Sorted(tuple(_seen(order, nodes, now) for order in claims))


def _seen(order: Order, nodes: Sequence[ClusterNode], now: datetime) -> Order:
    listed = any(node.identifier == order.node for node in nodes)
    if listed and (order.found_at is None or order.missing_since is not None):
        return replace(order, found_at=order.found_at or now, missing_since=None)
    if not listed and order.found_at is not None and order.missing_since is None:
        return replace(order, missing_since=now)
    return order


def machine_of(order: Order, nodes: Sequence[ClusterNode], now: datetime) -> Machine:
    node = next((node for node in nodes if node.identifier == order.node), None) if order.node else None
    state, message = _state(order, now)
    hostname = ((node.hostname if node else "") or "").lower()
    return Machine(
        id=order.key,
        name=hostname or order.name,
        key=order.key,
        offering=order.offering,
        datacenter=order.datacenter,
        group=order.group,
        state=state,
        node_name=hostname,
        addresses=tuple(address for address in (node.default_ip, node.private_ip) if address) if node else (),
        created_at=order.ordered_at,
        message=message,
        resource_identifier=order.cluster,
    )


def _state(order: Order, now: datetime) -> tuple[MachineState, str]:
    if order.unwanted:
        return "deleting", "waits for VPSie to show the node, to delete it"
    if order.found_at is not None:
        return "running", ""
    if order.overdue(now):
        minutes = int((now - order.ordered_at).total_seconds() // 60)
        return "failed", f"ordered {minutes} minutes ago, and VPSie shows no new node"
    return "provisioning", "ordered; VPSie has not shown it yet"
