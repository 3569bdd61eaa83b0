"""Matches the nodes of a managed cluster with the orders that created them, because VPSie does not report it.

An order has neither a name nor a key; the reply is usually just `true`, and the node appears in the cluster's list some time later.
So each order records the nodes that existed before; new nodes belong to open orders. As long as all open orders are for the same kind
of node, it does not matter which node belongs to which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.providers.protocol import Machine, MachineState
from plimsoll.providers.vpsie.replies import ClusterNode

# How long an ordered node may take to appear; the reference implementation waits as long.
MAX_CREATION_TIME = timedelta(minutes=15)
# A new node may be missing from a list that lags; later a missing node does not exist.
MAX_LIST_LAG = timedelta(minutes=2)
MAX_ORDER_AGE = timedelta(hours=1)


class NodeOrder(Struct, frozen=True):
    """One machine, from its order to its deletion."""

    key: str
    name: str
    group: str
    cluster: str
    offering: str
    datacenter: str
    ordered_at: datetime
    before: tuple[str, ...]  # the nodes that existed
    answered: bool = False  # VPSie accepted it
    unwanted: bool = False  # deleted before its node appeared
    node: str = ""  # VPSie's identifier
    found_at: datetime | None = None  # when a list first showed the node
    missing_since: datetime | None = None  # since when lists do not show it any more

    def overdue(self, now: datetime) -> bool:
        return self.found_at is None and now - self.ordered_at > MAX_CREATION_TIME

    def over(self, now: datetime) -> bool:
        """Whether the record can be deleted: no node can appear any more."""
        if self.missing_since is not None:
            return now - self.missing_since > MAX_ORDER_AGE
        return self.unwanted and not self.node and now - self.ordered_at > MAX_ORDER_AGE

    def gone(self, nodes: Sequence[ClusterNode], now: datetime) -> bool:
        """Whether its node existed and does not any more."""
        if self.found_at is None or any(node.identifier == self.node for node in nodes):
            return False
        return now - self.found_at > MAX_LIST_LAG


class MatchedOrders(Struct, frozen=True):
    orders: tuple[NodeOrder, ...]
    unmatched: tuple[str, ...] = ()  # new nodes, if there are more than open orders: ours cannot be identified


def match_orders(orders: Iterable[NodeOrder], nodes: Sequence[ClusterNode], now: datetime) -> MatchedOrders:
    """The orders of one cluster with their nodes."""
    orders = sorted(orders, key=lambda order: (order.ordered_at, order.key))
    claimed = {order.node for order in orders if order.node}
    # Overdue orders come last: a very late node is better deleted than forgotten.
    waiting = sorted((one for one in orders if not one.node and not one.over(now)), key=lambda one: one.overdue(now))
    new = [node.identifier for node in nodes if node.identifier not in claimed]
    new = [name for name in new if any(name not in order.before for order in waiting)]
    if len(new) > len(waiting):
        return MatchedOrders(tuple(_seen(order, nodes, now) for order in orders), tuple(new))
    found: dict[str, str] = {}
    for order in waiting:
        mine = next((name for name in new if name not in order.before), None)
        if mine is not None:
            new.remove(mine)
            found[order.key] = mine
    claims = [replace(one, node=found[one.key], answered=True) if one.key in found else one for one in orders]
    return MatchedOrders(tuple(_seen(order, nodes, now) for order in claims))


def _seen(order: NodeOrder, nodes: Sequence[ClusterNode], now: datetime) -> NodeOrder:
    listed = any(node.identifier == order.node for node in nodes)
    if listed and (order.found_at is None or order.missing_since is not None):
        return replace(order, found_at=order.found_at or now, missing_since=None)
    if not listed and order.found_at is not None and order.missing_since is None:
        return replace(order, missing_since=now)
    return order


def ordered_machine_of(order: NodeOrder, nodes: Sequence[ClusterNode], now: datetime) -> Machine:
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


def _state(order: NodeOrder, now: datetime) -> tuple[MachineState, str]:
    if order.unwanted:
        return "deleting", "deleted as soon as VPSie lists its node"
    if order.found_at is not None:
        return "running", ""
    if order.overdue(now):
        minutes = int((now - order.ordered_at).total_seconds() // 60)
        return "failed", f"ordered {minutes} minutes ago and VPSie lists no new node"
    return "provisioning", "ordered; VPSie does not list it yet"
