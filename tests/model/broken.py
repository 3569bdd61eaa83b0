"""Protocols that leave one thing out, each by answering the real one as if that thing had been done."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from plimsoll.controllers.allocation.conditions import PROPOSED, without
from plimsoll.controllers.allocation.lease import NONCE
from plimsoll.controllers.allocation.plan import Assignment
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import BATCH, ClearingStale, Proposing, State, VerifyingLease
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.types.coordination import Lease, LeaseSpec
from plimsoll.kube.types.meta import Metadata
from plimsoll.runtime.transaction import Found, ListAll, TransactionReply, TransactionRequest, WriteResult, WritesDone
from tests.model.world import MOMENT, Rules, Running, Store


@dataclass
class WithoutEpochCheck(Rules):
    """Whoever looks at the lease before it commits finds it untouched, whatever became of it."""

    def transition(self, state: State, reply: TransactionReply) -> tuple[State, TransactionRequest]:
        if isinstance(state, VerifyingLease):
            session = state.session
            meta = Metadata(
                uid=session.lease.uid, resource_version=session.epoch, annotations={NONCE: session.nonce}
            )  # fmt: skip
            reply = Found(MOMENT, Lease(metadata=meta, spec=LeaseSpec(holder_identity=session.task.identity)))
        return step(state, reply)


@dataclass
class WithoutProposals(Rules):
    """One write instead of two: the proposal is only thought of, and the allocation written right away."""

    def transition(self, state: State, reply: TransactionReply) -> tuple[State, TransactionRequest]:
        following, request = step(state, reply)
        while isinstance(following, Proposing) and following.rest:
            thought = WritesDone(MOMENT, tuple(WriteResult("done", _imagined(one)) for one in following.rest[:BATCH]))
            following, request = step(following, thought)
        return following, request


@dataclass
class WithoutClearing(Rules):
    """What former holders proposed counts as free without a write that takes it back."""

    def transition(self, state: State, reply: TransactionReply) -> tuple[State, TransactionRequest]:
        following, request = step(state, reply)
        while isinstance(following, ClearingStale):
            ignored = tuple(WriteResult("done", _unproposed(one)) for one in following.stale[:BATCH])
            following, request = step(following, WritesDone(MOMENT, ignored))
        return following, request


@dataclass
class WithStaleLists(Rules):
    """The list under the lease comes from a cache that saw nothing since the beginning."""

    def _read(self, store: Store, operator: Running, request: TransactionRequest) -> Running:
        if isinstance(request, ListAll):
            old = self.beginning().store.containers
            # Of its own next container it has seen everything: only what the others did meanwhile is missing.
            own = int("ABC".index(operator_name(self, operator)) % len(old))
            store = store._replace(
                containers=tuple(store.containers[n] if n == own else old[n] for n in range(len(old)))
            )
        return super()._read(store, operator, request)


def operator_name(rules: Rules, operator: Running) -> str:
    state = rules.states[operator.state][0]
    return state.session.task.process[0]  # type: ignore[union-attr]


def _imagined(one: Assignment) -> WekaContainer:
    proposal = {"type": PROPOSED, "status": "True", "reason": "Proposed", "message": one.proposal.text}
    status = structs.replace(one.container.status, conditions=(*one.container.conditions, proposal))
    return structs.replace(one.container, status=status)


def _unproposed(container: WekaContainer) -> WekaContainer:
    status = structs.replace(container.status, conditions=without(container.conditions, PROPOSED))
    return structs.replace(container, status=status)
