"""Format an explanation as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from plimsoll.explain.records import (
    DecisionExplanation,
    Explanation,
    NodeExplanation,
    NodeGroupExplanation,
    PodExplanation,
    ReplicaSetOrder,
    WorkloadExplanation,
)
from plimsoll.runtime.decision import Blocker, Reason

_LABEL_WIDTH = 14


def lines(answer: Explanation) -> Iterator[str]:
    where = f"{answer.namespace}/{answer.name}" if answer.namespace else answer.name
    yield click.style(f"{answer.kind} {where}", bold=True)
    match answer:
        case WorkloadExplanation():
            yield from _workload(answer)
        case NodeExplanation():
            yield from _node(answer)
        case PodExplanation():
            yield from _pod(answer)
        case NodeGroupExplanation():
            yield from _group(answer)
        case DecisionExplanation():
            yield from _field("controller", answer.controller)
            yield from _reason("now", answer.reason)
            yield from _list("next", answer.steps)
            yield from _blockers(answer.blockers, answer.as_of)
            yield from _list("errors", answer.errors, colour="red")


def _workload(answer: WorkloadExplanation) -> Iterator[str]:
    if answer.policy is not None:
        policy = answer.policy
        yield from _field(
            "policy",
            f"{policy.spot_percentage}% on spot, at least {policy.min_on_demand} on-demand, rounded {policy.rounding}",
        )
        yield from _field("window", policy.window or "always open")
    if answer.target is not None and answer.current is not None and answer.drift is not None:
        yield from _field("target", f"{answer.target.spot} spot, {answer.target.on_demand} on-demand")
        yield from _field(
            "current", f"{answer.current.spot} spot, {answer.current.on_demand} on-demand; {answer.ready} ready"
        )
        yield from _field("drift", f"{answer.drift.spot:+d} spot, {answer.drift.on_demand:+d} on-demand")
        yield from _field("action", answer.action)
    if answer.reason.message not in answer.errors:
        yield from _reason("now", answer.reason)
    yield from _list("next", answer.steps)
    for number, guard in enumerate(answer.guards):
        mark = click.style("pass", fg="green") if guard.open else click.style("block", fg="red")
        told = f": {guard.message}{_until(guard.until, answer.as_of)}" if not guard.open else ""
        yield from _field("guards" if number == 0 else "", f"{mark}  {guard.guard}{told}")
    if not answer.guards:
        yield from _blockers(answer.blockers, answer.as_of)
    elif other := [one for one in answer.blockers if one.message not in {guard.message for guard in answer.guards}]:
        yield from _blockers(other, answer.as_of)
    yield from _list("errors", answer.errors, colour="red")
    if answer.deletion_cost is not None:
        yield from _reason("deletion cost", answer.deletion_cost)
    for order in answer.deletion_order:
        yield from _order(order)


def _order(order: ReplicaSetOrder) -> Iterator[str]:
    yield from _field("deleted first", f"ReplicaSet {order.replica_set}, imbalance {order.imbalance}")
    width = max((len(one.pod) for one in order.departures), default=0)
    for number, one in enumerate(order.departures, 1):
        cost = "no cost" if one.cost is None else str(one.cost)
        why = "" if one.placed_by == "cost" else f"  ({one.placed_by})"
        yield f"{'':{_LABEL_WIDTH}}{number:3}. {one.pod:{width}}  {one.zone or '-':14} {one.node or '-':20} {cost}{why}"


def _node(answer: NodeExplanation) -> Iterator[str]:
    state = "ready" if answer.ready else click.style("not ready", fg="red")
    yield from _field("class", f"{answer.capacity_class}, zone {answer.zone or 'unknown'}, {state}")
    if answer.leaving:
        yield from _field("draining", f"taint {answer.leaving}")
    for number, use in enumerate(answer.usage):
        yield from _field(
            "requested" if number == 0 else "",
            f"{use.resource:22} {use.requested:>10} of {use.allocatable:>10}  {use.percent:5.1f} %",
        )
    if answer.why_not is not None:
        yield from _reason("kept", answer.why_not)
    elif answer.moves:
        yield from _list("removable", [f"{one.pod} → {one.to}" for one in answer.moves])
    else:
        yield from _field("removable", "no pod has to move")
    yield from _list("not moved", answer.staying)


def _group(answer: NodeGroupExplanation) -> Iterator[str]:
    if answer.current is not None:
        yield from _field("nodes", f"{answer.current} current, {answer.desired} desired")
        if answer.adding or answer.removing:
            yield from _field("changing", f"{answer.adding} being added, {answer.removing} being removed")
    yield from _reason("now", answer.reason)
    yield from _list("next", answer.steps)
    yield from _blockers(answer.blockers, answer.as_of)
    yield from _list("kept", [f"{one.node}: {one.why}" for one in answer.staying])
    yield from _list("errors", answer.errors, colour="red")


def _pod(answer: PodExplanation) -> Iterator[str]:
    yield from _field("phase", answer.phase + (f" on {answer.node}" if answer.node else ""))
    if answer.workload:
        yield from _field("workload", f"{answer.workload}, class {answer.capacity_class}")
    yield from _reason("now", answer.reason)
    yield from _list("coming", [one.sentence(answer.as_of) for one in answer.coming])
    yield from _list("fits on", answer.fits)
    yield from _list(
        "no fit on",
        [f"{one.nodes} nodes, {one.rule}: {one.message} (node {one.example})" for one in answer.refusals],
    )


def _field(label: str, text: str) -> Iterator[str]:
    yield f"{label:{_LABEL_WIDTH}}{text}"


def _reason(label: str, reason: Reason) -> Iterator[str]:
    yield from _field(label, f"{click.style(reason.code, bold=True)}: {reason.message}")


def _list(label: str, texts: Sequence[str], colour: str | None = None) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield from _field(label if number == 0 else "", click.style(text, fg=colour) if colour else text)


def _blockers(blockers: Sequence[Blocker], now: datetime) -> Iterator[str]:
    yield from _list("blocked by", [f"{one.code}: {one.message}{_until(one.until, now)}" for one in blockers])


def _until(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    seconds = max(0, round((moment - now).total_seconds()))
    return f" (until {moment:%Y-%m-%d %H:%M:%S %Z}, in {seconds // 3600}h {seconds // 60 % 60}m {seconds % 60}s)"
