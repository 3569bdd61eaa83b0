"""One session on one node, as a transition function: (state, reply) → (state, request).

    acquire the lease → list live → propose → verify the lease live → commit → release the lease

A lease is not a fence: its holder may be paused for an hour between any two steps and then continue. The order of the steps
and the resourceVersion precondition of every write guarantee that no drive is allocated twice:

- A session commits only after it has read its own epoch from the lease *after* all of its proposals were written. A later
  holder lists later, so it sees those proposals or the allocations that they became.
- A proposal counts as taken until the current holder has cleared it. Clearing changes the container's resourceVersion, so
  the API server rejects the commit of the earlier session.
- A proposal that is written after another process acquired the lease is never committed: its session reads a foreign epoch.

`tests/model` explores this function under lease expiry at any step, crashes, late writes and lost replies.
`runtime.transaction` runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from msgspec import structs

from plimsoll.controllers.allocation import conditions
from plimsoll.controllers.allocation.conditions import Proposal, proposal_of
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS, holding_nodes, nodes_of
from plimsoll.controllers.allocation.lease import (
    NONCE,
    acquire_patch,
    can_acquire,
    held_by,
    holder_id,
    recorded_holders,
    release_patch,
)
from plimsoll.controllers.allocation.plan import Assignment, Plan, lost_containers, make_plan, restore_plan
from plimsoll.controllers.allocation.session import (
    BATCH,
    AcquiringLease,
    ClearingStale,
    Committing,
    ConfirmingLease,
    Ended,
    ListingContainers,
    Proposing,
    ReadingLease,
    RecheckingLease,
    ReleasingLease,
    Session,
    Starting,
    State,
    Task,
    VerifyingLease,
)
from plimsoll.controllers.allocation.shortage import LONGEST_NOTE
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.cache.store import is_older
from plimsoll.kube.lease_observation import LeaseObservation, observe_lease
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.resources import LEASES
from plimsoll.runtime.decision import Blocker, Create, Event, Patch, Reason, Ref
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Moment,
    ReadFailed,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WriteResult,
    WritesDone,
)

ALLOCATED = Reason("ResourcesAllocated", "a container waits for drives or ports")
CLEARED = Reason("StaleProposal", "the session that proposed this has ended")
NOTHING = Plan()

Next: TypeAlias = tuple[State, TransactionRequest]


def step(state: State, reply: TransactionReply) -> Next:
    """The next state and request. A read that failed ends the session."""
    match state, reply:
        case (_, ReadFailed()):
            return _unread(state, reply)
        case (Starting(), TransactionStarted()):
            nonce = f"{state.task.process}/{reply.token}"
            return ReadingLease(state.task, nonce), Get(LEASES, state.task.lease_namespace, state.task.lease_name)
        case (ReadingLease(), Found()):
            return _look(state, cast("Lease | None", reply.item), reply.moment)
        case (AcquiringLease(), WritesDone()):
            return _taken(state, reply)
        case (ConfirmingLease(), Found()):
            return _found_out(state, cast("Lease | None", reply.item))
        case (ListingContainers(), Listed()):
            return _listed(state, cast("tuple[WekaContainer, ...]", reply.items), reply.moment)
        case (RecheckingLease(), Found()):
            if not _still_ours(state.session, cast("Lease | None", reply.item)):
                return _overtaken(state.session.task)
            return _clear(state.session, state.containers, _stale(state.session, state.containers), reply.moment)
        case (ClearingStale(), WritesDone()):
            return _cleared(state, reply)
        case (Proposing(), WritesDone()):
            return _proposed(state, reply)
        case (VerifyingLease(), Found()):
            if not _still_ours(state.session, cast("Lease | None", reply.item)):
                return _overtaken(state.session.task, state.plan)
            return _commit(Committing(state.session, state.plan, state.proposed), reply.moment)
        case (Committing(), WritesDone()):
            return _committed(state, reply)
        case (ReleasingLease(), WritesDone()):
            return Ended(state.session.task, unserved=state.plan.unserved, lost=state.lost), state.end
        case _:
            raise TypeError(f"unexpected reply {type(reply).__name__} in state {type(state).__name__}")


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _look(state: ReadingLease, lease: Lease | None, moment: Moment) -> Next:
    task = state.task
    body = acquire_patch(lease, identity=task.identity, nonce=state.nonce, times=task.times, now=moment.now)
    why = Reason("TakeLease", f"{task.identity} waits on node {task.node}")
    taken = AcquiringLease(task, state.nonce, moment.at, first=lease is None)
    if lease is None:
        return taken, ConcurrentWrites((Create(LEASES, task.lease_namespace, task.lease_name, body, why),))
    seen = observe_lease(lease, task.observation, moment.at)
    if not can_acquire(lease, seen, process=task.process, times=task.times, at=moment.at):
        return _held(task, lease, seen)
    return taken, ConcurrentWrites((Patch(Ref.to(LEASES, lease), body, why),))


def _taken(state: AcquiringLease, reply: WritesDone) -> Next:
    (answer,) = reply.answers
    task = state.task
    if answer.status == "done" and isinstance(answer.item, Lease):
        return _begin(task, answer.item, state.nonce, state.since)
    if answer.status == "unknown":
        return ConfirmingLease(task, state.nonce, state.since), Get(LEASES, task.lease_namespace, task.lease_name)
    if answer.status == "gone" and state.first:
        message = (
            f"namespace {task.lease_namespace} for the node leases does not exist: create it, or set allocation.namespace to "
            "another one"
        )
        blocker = Blocker("NoLeaseNamespace", message)
        return Ended(task, blocker=blocker), End("failed", message, blocker)
    if answer.status in ("conflict", "gone"):
        return _held(task, None, None)
    return Ended(task), End(answer.status, f"cannot acquire the lease: {answer.detail}")


def _found_out(state: ConfirmingLease, lease: Lease | None) -> Next:
    if lease is not None and lease.annotations.get(NONCE) == state.nonce and lease.spec.holder_identity:
        return _begin(state.task, lease, state.nonce, state.since)
    return _held(state.task, lease, None)


def _begin(task: Task, lease: Lease, nonce: str, since: float) -> Next:
    session = Session(task, Ref.to(LEASES, lease), nonce, since, recorded_holders(lease))
    return ListingContainers(session), ListAll(WEKA_CONTAINERS)


def _held(task: Task, lease: Lease | None, seen: LeaseObservation | None) -> Next:
    message = f"the lease {task.lease_namespace}/{task.lease_name} is held by {held_by(lease)}"
    blocker = Blocker("LeaseHeld", message)
    return Ended(task, seen, blocker=blocker), End("refused", message, blocker)


def _still_ours(session: Session, lease: Lease | None) -> bool:
    """Whether the lease is unchanged since this session acquired it."""
    return (
        lease is not None
        and lease.uid == session.lease.uid
        and lease.metadata.resource_version == session.epoch
        and lease.annotations.get(NONCE) == session.nonce
    )


def _overtaken(task: Task, plan: Plan = NOTHING) -> Next:
    return Ended(task, unserved=plan.unserved), End("conflict", "another process acquired or changed the lease")


def _unread(state: State, reply: ReadFailed) -> Next:
    session = getattr(state, "session", None)
    end = End("failed", reply.detail)
    if isinstance(session, Session):
        return _release(session, end, reply.moment)
    return Ended(cast("Task", getattr(state, "task", None))), end


def _release(
    session: Session, end: End, moment: Moment, plan: Plan = NOTHING, *, lost: frozenset[str] = frozenset()
) -> Next:
    if session.failure is not None:
        # The other containers were served; the failed one is retried with back-off.
        end = End("failed", session.failure.message, events=(*end.events, session.failure))
    why = Reason("ReleaseLease", f"the session on node {session.task.node} has ended")
    write = Patch(session.lease, release_patch(moment.now, session.holders), why)
    return ReleasingLease(session, end, plan, lost), ConcurrentWrites((write,))


# ── current state ───────────────────────────────────────────────────────────────────────────────────────────────────


def _listed(state: ListingContainers, items: tuple[WekaContainer, ...], moment: Moment) -> Next:
    session = state.session
    containers = tuple(
        container for container in items if session.task.node in nodes_of(container) or not container.node_name
    )
    session = structs.replace(session, holders=_holders(session, containers))
    stale = _stale(session, containers)
    if any(not is_older(cast("Proposal", proposal_of(container)).epoch, session.epoch) for container in stale):
        task = session.task
        return RecheckingLease(session, containers), Get(LEASES, task.lease_namespace, task.lease_name)
    return _clear(session, containers, stale, moment)


def _holders(session: Session, containers: tuple[WekaContainer, ...]) -> frozenset[str]:
    """Ids to record: containers with an allocation on the node, and recorded ones that lost theirs and still exist."""
    here = {holder_id(one.uid) for one in containers if session.task.node in holding_nodes(one)}
    return frozenset(here | {one for one in (holder_id(c.uid) for c in containers) if one in session.recorded})


def _stale(session: Session, containers: tuple[WekaContainer, ...]) -> tuple[WekaContainer, ...]:
    """Containers with a proposal of another session for this node."""
    return tuple(
        container
        for container in containers
        if (proposal := proposal_of(container)) is not None
        and proposal.node == session.task.node
        and proposal.epoch != session.epoch
    )


def _clear(
    session: Session, containers: tuple[WekaContainer, ...], stale: tuple[WekaContainer, ...], moment: Moment
) -> Next:
    """Clear the proposals of earlier sessions. A proposal counts as taken until its clearing write succeeded."""
    if not stale:
        return _plan(session, containers, moment)
    writes = tuple(
        Patch(Ref.to(WEKA_CONTAINERS, container), conditions.clear_patch(container), CLEARED, subresource="status")
        for container in stale[:BATCH]
    )
    return ClearingStale(session, containers, stale), ConcurrentWrites(writes)


def _cleared(state: ClearingStale, reply: WritesDone) -> Next:
    now_there = {container.uid: container for container in state.containers}
    for container, answer in zip(state.stale[:BATCH], reply.answers, strict=True):
        if answer.status == "done" and isinstance(answer.item, WekaContainer):
            now_there[container.uid] = answer.item
        elif answer.status == "gone":
            now_there.pop(container.uid, None)
        elif proposal_of(container) == Proposal(container.node_name, conditions.UNREADABLE):
            end = End(answer.status, f"an unreadable proposal of {container.title} cannot be cleared: {answer.detail}")
            return _release(state.session, end, reply.moment)
    session = _with_failure(state.session, state.stale[:BATCH], reply.answers)
    return _clear(session, tuple(now_there.values()), state.stale[BATCH:], reply.moment)


def _with_failure(session: Session, targets: Iterable[WekaContainer], answers: tuple[WriteResult, ...]) -> Session:
    for container, answer in zip(targets, answers, strict=True):
        if answer.status in ("failed", "refused") and session.failure is None:
            message = f"cannot write the status of {container.title}: {answer.detail}"[:LONGEST_NOTE]
            event = Event(Ref.to(WEKA_CONTAINERS, container), "AllocationFailed", message, "Warning")
            return structs.replace(session, failure=event)
    return session


# ── propose, verify, commit ──────────────────────────────────────────────────────────────────────────────────────────


def _plan(session: Session, containers: tuple[WekaContainer, ...], moment: Moment) -> Next:
    task = session.task
    if task.restore is not None:
        plan = restore_plan(task.node, task.inventory, containers, task.restore, epoch=session.epoch)
        return _propose(Proposing(session, plan, plan.assignments), moment)
    recorded = frozenset(one.uid for one in containers if holder_id(one.uid) in session.recorded)
    if missing := lost_containers(containers, task.node, task.running, recorded):
        names = ", ".join(container.title for container in missing)
        message = f"{names} runs on node {task.node} without an allocation in its status"
        end = End("refused", message, Blocker("AllocationLost", message))
        return _release(session, end, moment, lost=frozenset(one.uid for one in missing))
    plan = make_plan(
        task.node, task.inventory, containers, epoch=session.epoch, turn=task.turn, held_back=task.held_back,
        ports_per_container=task.ports_per_container, labels=dict(task.labels), clusters=task.clusters,
    )  # fmt: skip
    return _propose(Proposing(session, plan, plan.assignments), moment)


def _propose(state: Proposing, moment: Moment) -> Next:
    """Write the next batch of proposals. After half of the deadline, commit those already written first."""
    session = state.session
    half = session.task.times.renew_deadline.total_seconds() / 2
    if state.rest and moment.at < session.since + half:
        writes = tuple(
            Patch(
                Ref.to(WEKA_CONTAINERS, one.container), conditions.propose_patch(one.container, one.proposal, moment.now), ALLOCATED,
                subresource="status",
            )
            for one in state.rest[:BATCH]
        )  # fmt: skip
        return state, ConcurrentWrites(writes)
    if not state.proposed:
        return _release(session, _end(state.plan), moment, state.plan)
    task = session.task
    return VerifyingLease(session, state.plan, state.proposed), Get(LEASES, task.lease_namespace, task.lease_name)


def _proposed(state: Proposing, reply: WritesDone) -> Next:
    batch = state.rest[:BATCH]
    answers = tuple(_kept(one, answer) for one, answer in zip(batch, reply.answers, strict=True))
    written = tuple(
        Assignment(cast("WekaContainer", answer.item), one.proposal)
        for one, answer in zip(batch, answers, strict=True)
        if answer.status == "done"
    )
    session = _with_failure(state.session, (one.container for one in batch), answers)
    return _propose(Proposing(session, state.plan, state.rest[BATCH:], state.proposed + written), reply.moment)


def _kept(one: Assignment, answer: WriteResult) -> WriteResult:
    """Treat a proposal that is missing in the returned object as failed: the CRD pruned it."""
    if answer.status != "done":
        return answer
    if isinstance(answer.item, WekaContainer) and proposal_of(answer.item) == one.proposal:
        return answer
    return WriteResult(
        "failed",
        None,
        f"the API server dropped the condition {conditions.PROPOSED}; the CRD must declare status.conditions",
    )


def _commit(state: Committing, moment: Moment) -> Next:
    session = state.session
    if not state.rest:
        return _release(session, _end(state.plan, state.committed), moment, state.plan)
    if moment.at >= session.since + session.task.times.renew_deadline.total_seconds():
        # Safe either way, but other containers wait for the lease. The next session clears what is only proposed.
        end = End("conflict", "the session exceeded its deadline; the rest is proposed again")
        return _release(session, end, moment, state.plan)
    return state, ConcurrentWrites(tuple(_commitment(one, moment) for one in state.rest[:BATCH]))


def _commitment(one: Assignment, moment: Moment) -> Patch:
    target = Ref.to(WEKA_CONTAINERS, one.container)
    body = conditions.commit_patch(one.container, one.proposal, moment.now)
    event = Event(target, ALLOCATED.code, conditions.marker_after(one.container, one.proposal))
    return Patch(target, body, ALLOCATED, subresource="status", event=event)


def _committed(state: Committing, reply: WritesDone) -> Next:
    done = sum(answer.status == "done" for answer in reply.answers)
    written = {
        holder_id(one.container.uid)
        for one, answer in zip(state.rest[:BATCH], reply.answers, strict=True)
        if answer.status in ("done", "unknown")
    }
    session = structs.replace(state.session, holders=(state.session.holders or frozenset()) | written)
    session = _with_failure(session, (one.container for one in state.rest[:BATCH]), reply.answers)
    return _commit(Committing(session, state.plan, state.rest[BATCH:], state.committed + done), reply.moment)


def _end(plan: Plan, committed: int = 0) -> End:
    """The end of a session that held its lease throughout."""
    events = tuple(
        Event(Ref.to(WEKA_CONTAINERS, one.container), one.shortage.code, one.shortage.message, "Warning")
        for one in plan.unserved
    )
    if committed < len(plan.assignments):
        left = len(plan.assignments) - committed
        return End(
            "conflict",
            f"{left} of {len(plan.assignments)} containers changed in the meantime, or the deadline passed",
            events=events,
        )
    return End("done", f"{committed} containers served, {len(plan.unserved)} not served", events=events)
