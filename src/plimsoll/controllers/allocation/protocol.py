"""One tenure on one node, as a transition function: (state, reply) → (state, request).

    take the lease → list live → propose → read the lease live: still ours? → commit → give the lease back

A lease is no fence: its holder may be stopped for an hour between any two steps and then go on. What makes a drive never
given twice is the order of the steps and the version that every write insists on:

- Whoever commits has seen its own epoch on the lease *after* all of its proposals were written. Whoever holds the lease
  later lists later, so it sees those proposals, or the commits that they became.
- A proposal counts as taken until the current holder has cleared it. Clearing changes the container's version, and the
  commit that the proposal was meant for is refused from then on.
- A proposal that is written after another has taken the lease is never committed: its author finds a foreign epoch.

`tests/model` explores this very function under lease expiry at any moment, crashes, late writes and lost replies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from msgspec import structs

from plimsoll.controllers.allocation import conditions
from plimsoll.controllers.allocation.conditions import Proposal, proposal_of
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS, nodes_of
from plimsoll.controllers.allocation.lease import NONCE, Sighting, may_be_taken, releasing, sighted, taking
from plimsoll.controllers.allocation.plan import Assignment, Plan, lost, make_plan, restore_plan
from plimsoll.controllers.allocation.session import (
    BATCH,
    Clearing,
    Committing,
    Doubting,
    Ended,
    FindingOut,
    Listing,
    Looking,
    Opening,
    Proposing,
    Releasing,
    State,
    Taking,
    Task,
    Tenure,
    Verifying,
)
from plimsoll.controllers.allocation.shortage import LONGEST_NOTE
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.cache.store import is_older
from plimsoll.kube.types.resources import LEASES
from plimsoll.kube.types.stored import Lease
from plimsoll.runtime.decision import Blocker, Create, Event, Patch, Reason, Ref
from plimsoll.runtime.transaction import (
    Answer,
    Answered,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Moment,
    Opened,
    Reply,
    Request,
    Together,
    Unread,
)

ALLOCATED = Reason("ResourcesAllocated", "a container waits for drives or ports")
CLEARED = Reason("StaleProposal", "the tenure in which this was proposed is over")
NOTHING = Plan()

Next: TypeAlias = tuple[State, Request]


def step(state: State, reply: Reply) -> Next:
    """The next request. Every state knows one kind of reply; a read that failed ends the tenure."""
    match state, reply:
        case (_, Unread()):
            return _unread(state, reply)
        case (Opening(), Opened()):
            nonce = f"{state.task.process}/{reply.token}"
            return Looking(state.task, nonce), Get(LEASES, state.task.lease_namespace, state.task.lease_name)
        case (Looking(), Found()):
            return _look(state, cast("Lease | None", reply.item), reply.moment)
        case (Taking(), Answered()):
            return _taken(state, reply)
        case (FindingOut(), Found()):
            return _found_out(state, cast("Lease | None", reply.item))
        case (Listing(), Listed()):
            return _listed(state, cast("tuple[WekaContainer, ...]", reply.items), reply.moment)
        case (Doubting(), Found()):
            if not _still_ours(state.tenure, cast("Lease | None", reply.item)):
                return _overtaken(state.tenure.task)
            return _clear(state.tenure, state.containers, _stale(state.tenure, state.containers), reply.moment)
        case (Clearing(), Answered()):
            return _cleared(state, reply)
        case (Proposing(), Answered()):
            return _proposed(state, reply)
        case (Verifying(), Found()):
            if not _still_ours(state.tenure, cast("Lease | None", reply.item)):
                return _overtaken(state.tenure.task, state.plan)
            return _commit(Committing(state.tenure, state.plan, state.proposed), reply.moment)
        case (Committing(), Answered()):
            return _committed(state, reply)
        case (Releasing(), Answered()):
            return Ended(state.tenure.task, refusals=state.plan.refusals), state.end
        case _:
            raise TypeError(f"{type(reply).__name__} is no answer to {type(state).__name__}")


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _look(state: Looking, lease: Lease | None, moment: Moment) -> Next:
    task = state.task
    body = taking(lease, identity=task.identity, nonce=state.nonce, times=task.times, now=moment.now)
    why = Reason("TakeLease", f"{task.identity} waits on node {task.node}")
    taken = Taking(task, state.nonce, moment.at, first=lease is None)
    if lease is None:
        return taken, Together((Create(LEASES, task.lease_namespace, task.lease_name, body, why),))
    seen = sighted(lease, task.sighting, moment.at)
    if not may_be_taken(lease, seen, process=task.process, times=task.times, at=moment.at):
        return _held(task, lease.spec.holder_identity or "", seen)
    return taken, Together((Patch(Ref.to(LEASES, lease), body, why),))


def _taken(state: Taking, reply: Answered) -> Next:
    (answer,) = reply.answers
    task = state.task
    if answer.status == "done" and isinstance(answer.item, Lease):
        return _begin(task, answer.item, state.nonce, state.since)
    if answer.status == "unknown":
        return FindingOut(task, state.nonce, state.since), Get(LEASES, task.lease_namespace, task.lease_name)
    if answer.status == "gone" and state.first:
        message = (
            f"there is no namespace {task.lease_namespace}, where the leases of nodes are kept: create it, or name another in "
            "allocation.namespace"
        )
        return Ended(task), End("failed", message, Blocker("NoLeaseNamespace", message))
    if answer.status in ("conflict", "gone"):
        return _held(task, "another, who was faster", None)
    return Ended(task), End(answer.status, f"the lease could not be taken: {answer.detail}")


def _found_out(state: FindingOut, lease: Lease | None) -> Next:
    if lease is not None and lease.annotations.get(NONCE) == state.nonce and lease.spec.holder_identity:
        return _begin(state.task, lease, state.nonce, state.since)
    return _held(state.task, (lease.spec.holder_identity if lease else None) or "nobody", None)


def _begin(task: Task, lease: Lease, nonce: str, since: float) -> Next:
    return Listing(Tenure(task, Ref.to(LEASES, lease), nonce, since)), ListAll(WEKA_CONTAINERS)


def _held(task: Task, holder: str, seen: Sighting | None) -> Next:
    message = f"the lease {task.lease_namespace}/{task.lease_name} is held by {holder}"
    return Ended(task, seen), End("refused", message, Blocker("LeaseHeld", message))


def _still_ours(tenure: Tenure, lease: Lease | None) -> bool:
    """Not a letter of it was changed since we took it: the version says so, whoever else may use our name."""
    return (
        lease is not None
        and lease.uid == tenure.lease.uid
        and lease.metadata.resource_version == tenure.epoch
        and lease.annotations.get(NONCE) == tenure.nonce
    )


def _overtaken(task: Task, plan: Plan = NOTHING) -> Next:
    return Ended(task, refusals=plan.refusals), End("conflict", "the lease was taken or changed by another")


def _unread(state: State, reply: Unread) -> Next:
    tenure = getattr(state, "tenure", None)
    end = End("failed", reply.detail)
    if isinstance(tenure, Tenure):
        return _release(tenure, end, reply.moment)
    return Ended(cast("Task", getattr(state, "task", None))), end


def _release(tenure: Tenure, end: End, moment: Moment, plan: Plan = NOTHING) -> Next:
    if tenure.failure is not None:
        # The others were served; this one is tried again, later each time.
        end = End("failed", tenure.failure.message, events=(*end.events, tenure.failure))
    why = Reason("ReleaseLease", f"the tenure on node {tenure.task.node} is over")
    return Releasing(tenure, end, plan), Together((Patch(tenure.lease, releasing(moment.now), why),))


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────────────────


def _listed(state: Listing, items: tuple[WekaContainer, ...], moment: Moment) -> Next:
    tenure = state.tenure
    containers = tuple(
        container for container in items if tenure.task.node in nodes_of(container) or not container.home
    )
    stale = _stale(tenure, containers)
    if any(not is_older(cast("Proposal", proposal_of(container)).epoch, tenure.epoch) for container in stale):
        task = tenure.task
        return Doubting(tenure, containers), Get(LEASES, task.lease_namespace, task.lease_name)
    return _clear(tenure, containers, stale, moment)


def _stale(tenure: Tenure, containers: tuple[WekaContainer, ...]) -> tuple[WekaContainer, ...]:
    """Containers with a proposal for this node that was not made in this tenure."""
    return tuple(
        container
        for container in containers
        if (proposal := proposal_of(container)) is not None
        and proposal.node == tenure.task.node
        and proposal.epoch != tenure.epoch
    )


def _clear(
    tenure: Tenure, containers: tuple[WekaContainer, ...], stale: tuple[WekaContainer, ...], moment: Moment
) -> Next:
    """Take back what former holders proposed. Until such a write has succeeded, what was proposed is not free."""
    if not stale:
        return _plan(tenure, containers, moment)
    writes = tuple(
        Patch(Ref.to(WEKA_CONTAINERS, container), conditions.cleared(container), CLEARED, subresource="status")
        for container in stale[:BATCH]
    )
    return Clearing(tenure, containers, stale), Together(writes)


def _cleared(state: Clearing, reply: Answered) -> Next:
    now_there = {container.uid: container for container in state.containers}
    for container, answer in zip(state.stale[:BATCH], reply.answers, strict=True):
        if answer.status == "done" and isinstance(answer.item, WekaContainer):
            now_there[container.uid] = answer.item
        elif answer.status == "gone":
            now_there.pop(container.uid, None)
        elif proposal_of(container) == Proposal(container.home, conditions.UNREADABLE):
            end = End(
                answer.status, f"an unreadable proposal of {container.title} could not be cleared: {answer.detail}"
            )
            return _release(state.tenure, end, reply.moment)
    tenure = _with_failure(state.tenure, state.stale[:BATCH], reply.answers)
    return _clear(tenure, tuple(now_there.values()), state.stale[BATCH:], reply.moment)


def _with_failure(tenure: Tenure, targets: Iterable[WekaContainer], answers: tuple[Answer, ...]) -> Tenure:
    for container, answer in zip(targets, answers, strict=True):
        if answer.status in ("failed", "refused") and tenure.failure is None:
            message = f"the status of {container.title} could not be written: {answer.detail}"[:LONGEST_NOTE]
            event = Event(Ref.to(WEKA_CONTAINERS, container), "AllocationFailed", message, "Warning")
            return structs.replace(tenure, failure=event)
    return tenure


# ── propose, verify, commit ──────────────────────────────────────────────────────────────────────────────────────────


def _plan(tenure: Tenure, containers: tuple[WekaContainer, ...], moment: Moment) -> Next:
    task = tenure.task
    if task.given is not None:
        plan = restore_plan(task.node, task.inventory, containers, task.given, epoch=tenure.epoch)
        return _propose(Proposing(tenure, plan, plan.assignments), moment)
    if missing := lost(containers, task.node, task.running):
        names = ", ".join(container.title for container in missing)
        message = f"{names} runs on node {task.node} and its status holds no allocation"
        return _release(tenure, End("refused", message, Blocker("AllocationLost", message)), moment)
    plan = make_plan(
        task.node, task.inventory, containers, epoch=tenure.epoch, turn=task.turn, held_back=task.held_back,
        ports_per_container=task.ports_per_container,
    )  # fmt: skip
    return _propose(Proposing(tenure, plan, plan.assignments), moment)


def _propose(state: Proposing, moment: Moment) -> Next:
    """The next batch of proposals; after half of the tenure, those that are written are brought home first."""
    tenure = state.tenure
    half = tenure.task.times.renew_deadline.total_seconds() / 2
    if state.rest and moment.at < tenure.since + half:
        writes = tuple(
            Patch(
                Ref.to(WEKA_CONTAINERS, one.container), conditions.proposed(one.container, one.proposal, moment.now), ALLOCATED,
                subresource="status",
            )
            for one in state.rest[:BATCH]
        )  # fmt: skip
        return state, Together(writes)
    if not state.proposed:
        return _release(tenure, _end(state.plan), moment, state.plan)
    task = tenure.task
    return Verifying(tenure, state.plan, state.proposed), Get(LEASES, task.lease_namespace, task.lease_name)


def _proposed(state: Proposing, reply: Answered) -> Next:
    batch = state.rest[:BATCH]
    answers = tuple(_kept(one, answer) for one, answer in zip(batch, reply.answers, strict=True))
    written = tuple(
        Assignment(cast("WekaContainer", answer.item), one.proposal)
        for one, answer in zip(batch, answers, strict=True)
        if answer.status == "done"
    )
    tenure = _with_failure(state.tenure, (one.container for one in batch), answers)
    return _propose(Proposing(tenure, state.plan, state.rest[BATCH:], state.proposed + written), reply.moment)


def _kept(one: Assignment, answer: Answer) -> Answer:
    """A proposal that is not in the answer was not written, whatever the server says."""
    if answer.status != "done":
        return answer
    if isinstance(answer.item, WekaContainer) and proposal_of(answer.item) == one.proposal:
        return answer
    return Answer(
        "failed", None, f"the server does not keep the condition {conditions.PROPOSED}; does its CRD know conditions?"
    )


def _commit(state: Committing, moment: Moment) -> Next:
    tenure = state.tenure
    if not state.rest:
        return _release(tenure, _end(state.plan, state.committed), moment, state.plan)
    if moment.at >= tenure.since + tenure.task.times.renew_deadline.total_seconds():
        # Not for safety's sake: those that come after us are kept waiting. What is only proposed will be cleared.
        end = End("conflict", "the tenure took too long; what was proposed and not committed is proposed anew")
        return _release(tenure, end, moment, state.plan)
    return state, Together(tuple(_commitment(one, moment) for one in state.rest[:BATCH]))


def _commitment(one: Assignment, moment: Moment) -> Patch:
    target = Ref.to(WEKA_CONTAINERS, one.container)
    body = conditions.committed(one.container, one.proposal, moment.now)
    event = Event(target, ALLOCATED.code, conditions.will_hold(one.container, one.proposal))
    return Patch(target, body, ALLOCATED, subresource="status", event=event)


def _committed(state: Committing, reply: Answered) -> Next:
    done = sum(answer.status == "done" for answer in reply.answers)
    tenure = _with_failure(state.tenure, (one.container for one in state.rest[:BATCH]), reply.answers)
    return _commit(Committing(tenure, state.plan, state.rest[BATCH:], state.committed + done), reply.moment)


def _end(plan: Plan, committed: int = 0) -> End:
    """How a tenure ended whose lease was ours to the end."""
    events = tuple(
        Event(Ref.to(WEKA_CONTAINERS, one.container), one.shortage.code, one.shortage.message, "Warning")
        for one in plan.refusals
    )
    if committed < len(plan.assignments):
        left = len(plan.assignments) - committed
        return End(
            "conflict",
            f"{left} of {len(plan.assignments)} containers changed meanwhile, or time ran out",
            events=events,
        )
    return End("done", f"{committed} containers were served, {len(plan.refusals)} could not be", events=events)
