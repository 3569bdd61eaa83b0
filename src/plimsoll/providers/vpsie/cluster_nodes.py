"""The provider `vpsie` for worker nodes of managed Kubernetes clusters; `orders` matches nodes with orders.

A node joins by itself under a name that VPSie chooses. While an order waits for its node, only orders for the same kind of node
are accepted in that cluster, because the new nodes could not be distinguished.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from plimsoll.providers.errors import (
    AmbiguousOutcome,
    MachineNotFound,
    OfferingUnavailable,
    ProviderError,
    ProviderUnreachable,
    Throttled,
)
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Scope
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.offerings import offerings_from_rows
from plimsoll.providers.vpsie.order_store import OrderStore
from plimsoll.providers.vpsie.orders import NodeOrder, match_orders, ordered_machine_of
from plimsoll.providers.vpsie.pages import list_all_pages
from plimsoll.providers.vpsie.replies import (
    ClusterNode,
    NodeGroupRow,
    OfferingRow,
    UnexpectedReply,
    VpsieCluster,
    as_type,
    data_of,
)
from plimsoll.runtime.clock import Clock

OFFERINGS_SECONDS = 300.0
_ASK_AGAIN_SECONDS = 15.0
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

log = structlog.get_logger()


class _ClusterState(Struct, frozen=True):
    """The orders and nodes of a cluster, and new nodes that match no order."""

    orders: tuple[NodeOrder, ...]
    nodes: tuple[ClusterNode, ...]
    unmatched: tuple[str, ...]


class ClusterNodesProvider:
    name = "vpsie"

    def __init__(self, api: VpsieApi, store: OrderStore, clock: Clock) -> None:
        self._api = api
        self._store = store
        self._clock = clock
        self._offerings: dict[str, tuple[float, tuple[Offering, ...]]] = {}  # by datacenter
        self._turn = asyncio.Lock()  # a read of the store and the write that follows must not be interleaved

    async def close(self) -> None:
        await self._api.close()

    async def capabilities(self) -> Capabilities:
        return Capabilities(idempotent_create=False, lists_by_group=True, makes_nodes=False)

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        now = self._clock.monotonic()
        known = self._offerings.get(datacenter)
        if known is None or now >= known[0] + OFFERINGS_SECONDS:
            reply = await self._api.ask("/k8s/offers", {"dcIdentifier": datacenter})
            try:
                rows = as_type(data_of(reply), list[OfferingRow], "POST /k8s/offers")
            except UnexpectedReply as error:
                raise ProviderUnreachable(f"the offers of VPSie cannot be read: {error}") from error
            known = self._offerings[datacenter] = (now, offerings_from_rows(rows))
        return known[1]

    async def list(self, scope: Scope) -> Sequence[Machine]:
        async with self._turn:
            orders = await self._store.read()
            wanted = {order.cluster for order in orders}
            clusters = {scope.resource_identifier} & wanted if scope.resource_identifier else wanted
            machines = []
            for cluster in sorted(clusters):
                settled = await self._settled(cluster, orders)
                nodes, now = settled.nodes, self._clock.now()
                machines += [
                    ordered_machine_of(order, nodes, now) for order in settled.orders if not order.gone(nodes, now)
                ]
            return [machine for machine in machines if machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        cluster = request.resource_identifier
        _check("resourceIdentifier", cluster)
        async with self._turn:
            settled = await self._settled(cluster, await self._store.read())
            nodes, now = settled.nodes, self._clock.now()
            order = next((order for order in settled.orders if order.key == request.key), None)
            if order is not None:
                if order.node or order.answered:
                    return ordered_machine_of(order, nodes, now)
                if not order.overdue(now):
                    raise AmbiguousOutcome(
                        f"machine {request.name} was ordered before without a reply and VPSie lists no new node yet"
                    )
            if settled.unmatched:
                raise ProviderError(
                    f"cluster {cluster} has more new nodes ({', '.join(settled.unmatched)}) than were ordered: another client "
                    "adds nodes at the same time and VPSie does not report which node belongs to whom"
                )
            self._same_kind_only(request, settled.orders)
            number = await self._group_number(request)
            fresh = _order(request, nodes, self._clock)
            if order:
                await self._store.write(fresh)
            else:
                await self._store.begin(fresh)
            return await self._send(fresh, number, nodes)

    async def delete(self, machine_id: str) -> None:
        async with self._turn:
            order = next((order for order in await self._store.read() if order.key == machine_id), None)
            if order is None:
                return
            if order.node:
                await self._remove(order)
            elif not order.unwanted:
                await self._store.write(replace(order, unwanted=True))

    # ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self, order: NodeOrder, number: int, nodes: Sequence[ClusterNode]) -> Machine:
        path = f"/k8s/cluster/byId/{order.cluster}/add/slave/group/{number}"
        try:
            reply = await self._api.order(path)
        except AmbiguousOutcome:
            raise
        except ProviderError:
            await self._store.end(order)  # refused: nothing was created
            raise
        try:
            node = as_type(data_of(reply), ClusterNode, "the reply to an order").identifier
        except UnexpectedReply:
            node = ""  # just `true`
        answered = replace(order, answered=True, node=node)
        await self._store.write(answered)
        return ordered_machine_of(answered, nodes, self._clock.now())

    def _same_kind_only(self, request: MachineRequest, orders: Sequence[NodeOrder]) -> None:
        now = self._clock.now()
        kind = (request.group, request.offering)
        for order in orders:
            waits = not order.node and not order.overdue(now)
            if waits and order.key != request.key and (order.group, order.offering) != kind:
                raise Throttled(
                    f"machine {request.name} is not ordered yet: VPSie does not list the node of {order.name} yet, "
                    f"and the two could not be distinguished",
                    _ASK_AGAIN_SECONDS,
                )

    async def _settled(self, cluster: str, orders: Sequence[NodeOrder]) -> _ClusterState:
        """Match the cluster's orders with its nodes, store what changed, and delete the nodes of unwanted orders."""
        nodes = await self._nodes(cluster)
        mine = [order for order in orders if order.cluster == cluster]
        now = self._clock.now()
        result = match_orders(mine, nodes, now)
        if result.unmatched:
            log.warning("new nodes that match no order", cluster=cluster, nodes=result.unmatched, orders=len(mine))
        before = {order.key: order for order in mine}
        current = []
        for order in result.orders:
            if order.over(now):
                await self._store.end(order)
                continue
            if order != before[order.key]:
                await self._store.write(order)
            if order.unwanted and order.node:
                await self._remove(order)
                continue
            current.append(order)
        return _ClusterState(tuple(current), tuple(nodes), result.unmatched)

    async def _remove(self, order: NodeOrder) -> None:
        with contextlib.suppress(MachineNotFound):  # deleted already
            await self._api.delete(f"/k8s/cluster/byId/{order.cluster}/delete/slave", {"identifier": order.node})
        await self._store.end(order)

    # ── VPSie ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _nodes(self, cluster: str) -> Sequence[ClusterNode]:
        _check("resourceIdentifier", cluster)
        path = f"/k8s/cluster/byId/{cluster}"
        try:
            return as_type(data_of(await self._api.read(path)), VpsieCluster, f"GET {path}").nodes
        except UnexpectedReply as error:
            raise ProviderUnreachable(f"the nodes of cluster {cluster} cannot be read: {error}") from error

    async def _group_number(self, request: MachineRequest) -> int:
        """The number of VPSie's node group for this group and size; creates it if it is missing. An empty group costs nothing."""
        if not request.offering.isdecimal():
            raise OfferingUnavailable(
                f'"{request.offering}" is no size of VPSie\'s managed Kubernetes: expected a number'
            )
        wanted = f"{request.group}-{request.offering}"
        if (number := await self._group_named(request, wanted)) is None:
            body = {
                "clusterIdentifier": request.resource_identifier,
                "groupName": wanted,
                "KubeSizeID": int(request.offering),
            }
            await self._api.ask("/k8s/cluster/add/group", body)
            number = await self._group_named(request, wanted)
        if number is None:
            raise Throttled(f"VPSie does not list its new node group {wanted} yet", _ASK_AGAIN_SECONDS)
        return number

    async def _group_named(self, request: MachineRequest, wanted: str) -> int | None:
        groups = await list_all_pages(
            self._api, f"/k8s/node/groups/byClusterId/{request.resource_identifier}", NodeGroupRow
        )
        fitting = [
            group.id
            for group in groups
            if not group.is_deleted and group.group_name == wanted and str(group.boxsize_id) == request.offering
        ]
        return min(fitting, default=None)


def _order(request: MachineRequest, nodes: Sequence[ClusterNode], clock: Clock) -> NodeOrder:
    return NodeOrder(
        request.key, request.name, request.group, request.resource_identifier, request.offering, request.datacenter,
        clock.now(), tuple(node.identifier for node in nodes),
    )  # fmt: skip


def _check(field: str, value: str) -> None:
    """The value becomes part of a path."""
    if not _WORD.fullmatch(value):
        raise ProviderError(f'{field} is "{value}": expected the identifier of a cluster of VPSie')
