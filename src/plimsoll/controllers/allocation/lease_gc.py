"""Delete the leases of deleted nodes, as a transaction: (state, reply) → (state, request).

Deleting such a lease is safe at any time: a session whose lease changed ends. The cache only says where to look; each node is
read live before its lease is deleted.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.allocation.lease import orphans
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.resources import LEASES, NODES
from plimsoll.runtime.decision import Delete, Reason, Ref
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    ReadFailed,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WriteResult,
    WritesDone,
)


class LeaseGC(Struct, frozen=True):
    namespace: str
    nodes: frozenset[str]  # names of the nodes in the cache
    rest: tuple[tuple[str, Lease], ...] = ()  # node name and lease; the first node is being read
    left: WriteResult | None = None  # the reply to a delete that failed
    done: bool = False


Next: TypeAlias = tuple[LeaseGC, TransactionRequest]


def collect_leases(state: LeaseGC, reply: TransactionReply) -> Next:
    match reply:
        case TransactionStarted():
            return state, ListAll(LEASES, state.namespace)
        case Listed():
            found = orphans(cast("tuple[Lease, ...]", reply.items), state.nodes)
            return _next(replace(state, rest=found))
        case Found(item=None):
            (node, lease), *_ = state.rest
            why = Reason("NodeGone", f"node {node} is gone")
            return state, ConcurrentWrites((Delete(Ref.to(LEASES, lease), why),))
        case WritesDone():
            (answer,) = reply.answers
            left = state.left if answer.status in ("done", "would", "gone") else answer
            return _next(replace(state, rest=state.rest[1:], left=left))
        case Found():
            return _next(replace(state, rest=state.rest[1:]))
        case ReadFailed():
            return state, End("failed", reply.detail)


def _next(state: LeaseGC) -> Next:
    if not state.rest:
        if state.left is not None:
            # On a conflict the holder just renewed or released the lease: retry, since no further event triggers another run.
            return state, End("conflict" if state.left.status == "conflict" else "failed", state.left.detail)
        return replace(state, done=True), End()
    return state, Get(NODES, "", state.rest[0][0])
