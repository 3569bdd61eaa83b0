"""Leases of nodes that are gone, removed: a conversation of its own, (state, reply) → (state, request).

A lease protects nothing once its node is gone, and removing one is harmless at any time: a tenure that finds its lease
changed ends. The view only says where to look; that the node is gone is read live.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.allocation.lease import orphans
from plimsoll.kube.types.resources import LEASES, NODES
from plimsoll.kube.types.stored import Lease
from plimsoll.runtime.decision import Delete, Reason, Ref
from plimsoll.runtime.transaction import (
    Answer,
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


class Sweep(Struct, frozen=True):
    namespace: str
    nodes: frozenset[str]  # that there are, as the view has them
    rest: tuple[tuple[str, Lease], ...] = ()  # node and lease; the first one's node is being looked for
    left: Answer | None = None  # what became of one that is still there, though its node is gone
    done: bool = False


Next: TypeAlias = tuple[Sweep, Request]


def sweep(state: Sweep, reply: Reply) -> Next:
    match reply:
        case Opened():
            return state, ListAll(LEASES, state.namespace)
        case Listed():
            found = orphans(cast("tuple[Lease, ...]", reply.items), state.nodes)
            return _next(replace(state, rest=found))
        case Found(item=None):
            (node, lease), *_ = state.rest
            why = Reason("NodeGone", f"node {node} is gone")
            return state, Together((Delete(Ref.to(LEASES, lease), why),))
        case Answered():
            (answer,) = reply.answers
            left = state.left if answer.status in ("done", "would", "gone") else answer
            return _next(replace(state, rest=state.rest[1:], left=left))
        case Found():
            return _next(replace(state, rest=state.rest[1:]))
        case Unread():
            return state, End("failed", reply.detail)


def _next(state: Sweep) -> Next:
    if not state.rest:
        if state.left is not None:
            # A conflict: who holds it has just renewed it, or given it up. No node will go and ask for another look.
            return state, End("conflict" if state.left.status == "conflict" else "failed", state.left.detail)
        return replace(state, done=True), End()
    return state, Get(NODES, "", state.rest[0][0])
