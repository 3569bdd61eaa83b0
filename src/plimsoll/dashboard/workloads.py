"""Workload records: the last decisions about a workload and their outcome."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.deletion_cost.controller import DeletionCostDecision
from plimsoll.controllers.placement.controller import PlacementDecision
from plimsoll.dashboard.records import BlockerRecord, ClassCounts, WorkloadRecord
from plimsoll.runtime.decision import Blocker, Decision
from plimsoll.runtime.outcome import Outcome

# A scale-down rarely deletes more pods at once, and every change of the order is sent to all clients.
LEAVING_SHOWN = 20


class DecidedKey(Struct, frozen=True):
    """The last decision about a key and its outcome."""

    decision: Decision
    outcome: Outcome = Outcome()

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        return (*self.decision.blockers, *self.outcome.blockers)


def workload_record(placed: DecidedKey | None, ordered: DecidedKey | None) -> WorkloadRecord | None:
    """The record of a workload; None if neither controller manages it."""
    said = [one for one in (placed, ordered) if one is not None and _speaks(one.decision)]
    if not said:
        return None
    placing = placed.decision if placed in said and placed is not None else None
    ordering = ordered.decision if ordered in said and ordered is not None else None
    target = current = None
    action = said[0].decision.reason.code
    if isinstance(placing, PlacementDecision):
        action = placing.action.value
        if placing.target is not None:
            target = ClassCounts(placing.target.spot, placing.target.on_demand)
        if placing.current is not None:
            current = ClassCounts(placing.current.spot, placing.current.on_demand)
    order = _order(ordering) if isinstance(ordering, DeletionCostDecision) else None
    return WorkloadRecord(
        target=target,
        current=current,
        action=action,
        why=said[0].decision.reason.message,
        blockers=[blocker_record(blocker) for one in said for blocker in one.blockers],
        errors=[problem.message for one in said for problem in one.decision.problems],
        deletion_order=order[:LEAVING_SHOWN] if order is not None else None,
        replicas=len(order) if order is not None else 0,
    )


def blocker_record(blocker: Blocker) -> BlockerRecord:
    return BlockerRecord(blocker.code, blocker.message, blocker.until)


def is_deleted(decision: Decision) -> bool:
    """Whether the object of the decision is gone."""
    return decision.forget or decision.reason.code == "Gone"


def _speaks(decision: Decision) -> bool:
    return not is_deleted(decision) and decision.reason.code != "NotEnabled"


def _order(decision: DeletionCostDecision) -> list[tuple[str, str, str, int | None]]:
    return [(one.pod, one.zone, one.node, one.cost) for order in decision.orders for one in order.departures]
