"""Why a workload's replicas are where they are, what happens next, and which of them leaves first."""

from __future__ import annotations

from datetime import datetime

from plimsoll.controllers.deletion_cost.controller import DeletionCostController, DeletionCostDecision
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision
from plimsoll.controllers.placement.rebalance.candidates import moves
from plimsoll.controllers.placement.rebalance.guards import GUARDS, window_of
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.workload import Managed, judge, workload_at
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.explain.records import Guard, Leaving, Order, Policy, Split, WorkloadAnswer, steps
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key

_UNSAID = ("NotEnabled", "Gone")  # what deletion cost says of a workload that does not ask for it


def explain_workload(
    key: Key,
    view: View,
    now: datetime,
    *,
    placement: PlacementController,
    settings: PlacementSettings,
    deletion_cost: DeletionCostController,
) -> WorkloadAnswer:
    decided = placement.decide(key, view, now)
    ordered = deletion_cost.decide(key, view, now) if key.kind == "Deployment" else None
    workload = workload_at(key, view)
    verdict = judge(workload, settings) if workload is not None else None
    seen = Seen(verdict, view, now, settings) if isinstance(verdict, Managed) else None
    problems = (*decided.problems, *(ordered.problems if ordered is not None else ()))
    shown = ordered if ordered is not None and ordered.reason.code not in _UNSAID else None
    return WorkloadAnswer(
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        as_of=now,
        managed=seen is not None,
        reason=decided.reason,
        policy=_policy(seen) if seen is not None else None,
        target=Split(decided.target.spot, decided.target.on_demand) if decided.target is not None else None,
        current=Split(decided.current.spot, decided.current.on_demand) if decided.current is not None else None,
        ready=decided.current.ready if decided.current is not None else None,
        drift=_drift(decided),
        action=decided.action.value,
        steps=(*steps(decided), *(steps(shown) if shown is not None else ())),
        blockers=(*decided.blockers, *(shown.blockers if shown is not None else ())),
        guards=_guards(seen) if seen is not None else (),
        errors=tuple(problem.message for problem in problems),
        deletion_cost=shown.reason if shown is not None else None,
        deletion_order=_orders(shown) if shown is not None else (),
    )


def _drift(decided: PlacementDecision) -> Split | None:
    state = decided.state
    return Split(state.spot_drift, state.on_demand_drift) if state is not None else None


def _policy(seen: Seen) -> Policy:
    share = seen.managed.policy.share
    window, _, whose = window_of(seen)
    told = f"{window} (of {whose})" if window is not None else ""
    return Policy(share.min_on_demand, share.spot_percentage, share.rounding.value, told)


def _guards(seen: Seen) -> tuple[Guard, ...]:
    """Each guard about the next move that is wanted; none where nothing should move."""
    wanted = moves(seen)
    if not wanted:
        return ()
    found = []
    for guard in GUARDS:
        blocker = guard(seen, wanted[0])
        name = guard.__name__.replace("_", " ")
        found.append(Guard(name, open=True) if blocker is None else Guard(name, False, blocker.message, blocker.until))
    return tuple(found)


def _orders(decided: DeletionCostDecision) -> tuple[Order, ...]:
    return tuple(
        Order(
            order.replica_set,
            order.imbalance,
            tuple(Leaving(one.pod, one.node, one.zone, one.cost, one.placed_by) for one in order.departures),
        )
        for order in decided.orders
    )
