"""Metrics and problems of a placement decision. The metric names are those of existing Spotalis dashboards.

The event of an eviction is on its action, where it is decided: `controller`, `rebalance.interruption`, `spot_backoff`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plimsoll.controllers.placement.annotations import PLACED_BY
from plimsoll.controllers.placement.rebalance.move_checks import Move, recently_placed_elsewhere, window_of
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.workload import INVALID
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.kube.types.resources import NAMESPACES, Key
from plimsoll.runtime.decision import Blocker, Counter, Gauge, Problem, Reason, Ref

REPLICAS = "spotalis_workload_replicas"
TARGET = "plimsoll_placement_target_replicas"
RECONCILIATIONS = "spotalis_reconciliations_total"
ERRORS = "spotalis_reconciliation_errors_total"
BLOCKED_BY_BUDGET = "spotalis_rebalancing_blocked_by_pdb_total"


def labels(key: Key) -> dict[str, str]:
    return {"namespace": key.namespace, "workload": key.name, "workload_type": key.kind.lower()}


def gauges(state: WorkloadState) -> Iterator[Gauge]:
    common = labels(state.key)
    target, replicas = state.managed.target, state.replica_state
    yield Gauge(REPLICAS, replicas.current_spot, {**common, "replica_type": "spot"})
    yield Gauge(REPLICAS, replicas.current_on_demand, {**common, "replica_type": "on-demand"})
    yield Gauge(TARGET, target.spot, {**common, "replica_type": "spot"})
    yield Gauge(TARGET, target.on_demand, {**common, "replica_type": "on-demand"})


def counts(
    state: WorkloadState, action: NextAction, *, acted: bool, blockers: Iterable[Blocker], move: Move | None
) -> Iterator[Counter]:
    codes = {blocker.code for blocker in blockers}
    result = "success" if acted or not codes else "blocked"
    yield Counter(RECONCILIATIONS, {**labels(state.key), "action": action.value, "result": result})
    if move is not None and codes & {"NotEnoughPdb", "SeveralBudgets"}:
        budget = state.allowance(move.replica.pod).budget
        yield Counter(BLOCKED_BY_BUDGET, {**labels(state.key), "pdb_name": budget})


def unmanageable(about: Ref, reason: Reason) -> Problem:
    """The annotations of a workload are invalid, or conflict with the workload."""
    error = Counter(ERRORS, {**labels(about.key), "error_type": reason.code})
    return Problem(about, reason.code, reason.message, counts=(error,))


def other_installations(state: WorkloadState) -> Iterator[Problem]:
    """Report another installation that places the same workload, whether or not anything should move."""
    other = recently_placed_elsewhere(state)
    if other is not None:
        message = (
            f"{state.key}: the installation in namespace {other.annotations[PLACED_BY]} assigns the class of new pods, and the one in "
            f"{state.settings.installation} manages it too. This installation moves nothing meanwhile. Give each installation its own "
            "operator.watchNamespaces or placement.namespaceSelector, or remove one."
        )
        yield Problem(state.ref, "AnotherInstallation", message)


def namespace_problems(state: WorkloadState) -> Iterator[Problem]:
    """An invalid window of a namespace blocks the moves of every workload that uses it."""
    _, problems, whose = window_of(state)
    namespace = state.view[NAMESPACES].get("", state.workload.namespace)
    if problems and namespace is not None:
        message = f"{whose}: {'; '.join(str(problem) for problem in problems)}. Nothing is moved until this is fixed."
        error = Counter(ERRORS, {**labels(state.key), "error_type": INVALID})
        yield Problem(Ref.to(NAMESPACES, namespace), INVALID, message, counts=(error,))
