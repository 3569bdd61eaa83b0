"""Explain a Deployment or StatefulSet: target and current split, guards of the next move, and the deletion order."""

from __future__ import annotations

from datetime import datetime

from plimsoll.controllers.deletion_cost.controller import DeletionCostController, DeletionCostDecision
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision
from plimsoll.controllers.placement.rebalance.candidates import moves
from plimsoll.controllers.placement.rebalance.move_checks import MOVE_CHECKS, window_of
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.workload import Managed, evaluate_workload, workload_at
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.explain.records import (
    DeletionRank,
    GuardResult,
    PolicyView,
    ReplicaSetOrder,
    ReplicaSplit,
    WorkloadExplanation,
    steps,
)
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Reason

_UNSAID = ("NotEnabled", "Gone")  # what deletion cost says of a workload that does not ask for it


def explain_workload(
    key: Key,
    view: View,
    now: datetime,
    *,
    placement: PlacementController,
    settings: PlacementSettings,
    deletion_cost: DeletionCostController | None,
) -> WorkloadExplanation:
    decided = placement.decide(key, view, now)
    ordered = deletion_cost.decide(key, view, now) if deletion_cost is not None and key.kind == "Deployment" else None
    workload = workload_at(key, view)
    verdict = evaluate_workload(workload, settings) if workload is not None else None
    state = WorkloadState(verdict, view, now, settings) if isinstance(verdict, Managed) else None
    problems = (*decided.problems, *(ordered.problems if ordered is not None else ()))
    shown = ordered if ordered is not None and ordered.reason.code not in _UNSAID else None
    return WorkloadExplanation(
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        as_of=now,
        managed=state is not None,
        reason=decided.reason,
        policy=_policy(state) if state is not None else None,
        target=ReplicaSplit(decided.target.spot, decided.target.on_demand) if decided.target is not None else None,
        current=ReplicaSplit(decided.current.spot, decided.current.on_demand) if decided.current is not None else None,
        ready=decided.current.ready if decided.current is not None else None,
        drift=_drift(decided),
        action=decided.action.value,
        steps=(*steps(decided), *(steps(shown) if shown is not None else ())),
        blockers=(*decided.blockers, *(shown.blockers if shown is not None else ())),
        guards=_guards(state) if state is not None else (),
        errors=tuple(problem.message for problem in problems),
        deletion_cost=shown.reason if shown is not None else _unordered(state, runs=deletion_cost is not None),
        deletion_order=_orders(shown) if shown is not None else (),
    )


def _unordered(state: WorkloadState | None, *, runs: bool) -> Reason | None:
    """Why scale-downs of a managed Deployment may break its minimum; None where they do not."""
    if state is None or state.is_stateful_set:
        return None
    missing = "its annotation or the configuration opts out" if runs else "the controller deletion-cost does not run"
    message = f"no deletion order: {missing}. A scale-down may delete on-demand replicas first; moves restore the minimum afterwards"
    return Reason("NoDeletionOrder", message)


def _drift(decided: PlacementDecision) -> ReplicaSplit | None:
    state = decided.state
    return ReplicaSplit(state.spot_drift, state.on_demand_drift) if state is not None else None


def _policy(state: WorkloadState) -> PolicyView:
    share = state.managed.policy.share
    window, _, whose = window_of(state)
    told = f"{window} (of {whose})" if window is not None else ""
    return PolicyView(share.min_on_demand, share.spot_percentage, share.rounding.value, told)


def _guards(state: WorkloadState) -> tuple[GuardResult, ...]:
    """The result of every guard for the next move; empty if nothing should move."""
    wanted = moves(state)
    if not wanted:
        return ()
    found = []
    for check in MOVE_CHECKS:
        blocker, name = check.find_blocker(state, wanted[0]), check.id
        found.append(
            GuardResult(name, open=True)
            if blocker is None
            else GuardResult(name, False, blocker.message, blocker.until)
        )
    return tuple(found)


def _orders(decided: DeletionCostDecision) -> tuple[ReplicaSetOrder, ...]:
    return tuple(
        ReplicaSetOrder(
            order.replica_set,
            order.imbalance,
            tuple(DeletionRank(one.pod, one.node, one.zone, one.cost, one.placed_by) for one in order.departures),
        )
        for order in decided.orders
    )
