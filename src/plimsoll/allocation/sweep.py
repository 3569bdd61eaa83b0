"""Leases of nodes that are gone, removed: a conversation of its own, (state, reply) → (state, request).

A lease protects nothing once its node is gone, and removing one is harmless at any time: a tenure that finds its lease
changed ends. The view only says where to look; that the node is gone is read live.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from msgspec import Struct

from plimsoll.allocation.leases import orphans
from plimsoll.conversation import (
    Answered,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Opened,
    Reply,
    Request,
    Together,
    Unread,
)
from plimsoll.decision import Delete, Reason, Ref
from plimsoll.kube.records import Lease
from plimsoll.kube.resources import LEASES, NODES


class Sweep(Struct, frozen=True):
    namespace: str
    nodes: frozenset[str]  # that there are, as the view has them
    rest: tuple[tuple[str, Lease], ...] = ()  # node and lease; the first one's node is being looked for
    done: bool = False


Next: TypeAlias = tuple[Sweep, Request]


def sweep(state: Sweep, reply: Reply) -> Next:
    match reply:
        case Opened():
            return state, ListAll(LEASES, state.namespace)
        case Listed():
            found = orphans(cast("tuple[Lease, ...]", reply.items), state.nodes)
            return _next(Sweep(state.namespace, state.nodes, found))
        case Found(item=None):
            (node, lease), *_ = state.rest
            why = Reason("NodeGone", f"node {node} is gone")
            return state, Together((Delete(Ref.to(LEASES, lease), why),))
        case Found() | Answered():
            return _next(Sweep(state.namespace, state.nodes, state.rest[1:]))
        case Unread():
            return state, End("failed", reply.detail)


def _next(state: Sweep) -> Next:
    if not state.rest:
        return Sweep(state.namespace, state.nodes, done=True), End()
    return state, Get(NODES, "", state.rest[0][0])
