"""What a decision tells people, beside what it does. Metrics have the names that dashboards of Spotalis already ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plimsoll.controllers.placement.annotations import PLACED_BY
from plimsoll.controllers.placement.rebalance.guards import Move, placed_by_another, window_of
from plimsoll.controllers.placement.rebalance.next_action import NextAction
from plimsoll.controllers.placement.workload import INVALID
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.kube.types.resources import NAMESPACES, Key
from plimsoll.runtime.decision import Blocker, Counter, Gauge, Problem, Reason, Ref

REPLICAS = "spotalis_workload_replicas"
TARGET = "plimsoll_placement_target_replicas"
RECONCILIATIONS = "spotalis_reconciliations_total"
ERRORS = "spotalis_reconciliation_errors_total"
BLOCKED_BY_BUDGET = "spotalis_rebalancing_blocked_by_pdb_total"


def labels(key: Key) -> dict[str, str]:
    return {"namespace": key.namespace, "workload": key.name, "workload_type": key.kind.lower()}


def gauges(seen: Seen) -> Iterator[Gauge]:
    common = labels(seen.key)
    target, state = seen.managed.target, seen.state
    yield Gauge(REPLICAS, state.current_spot, {**common, "replica_type": "spot"})
    yield Gauge(REPLICAS, state.current_on_demand, {**common, "replica_type": "on-demand"})
    yield Gauge(TARGET, target.spot, {**common, "replica_type": "spot"})
    yield Gauge(TARGET, target.on_demand, {**common, "replica_type": "on-demand"})


def counts(
    seen: Seen, action: NextAction, *, acted: bool, blockers: Iterable[Blocker], move: Move | None
) -> Iterator[Counter]:
    codes = {blocker.code for blocker in blockers}
    result = "success" if acted or not codes else "blocked"
    yield Counter(RECONCILIATIONS, {**labels(seen.key), "action": action.value, "result": result})
    if move is not None and codes & {"NotEnoughPdb", "SeveralBudgets"}:
        budget = seen.allowance(move.replica.pod).budget
        yield Counter(BLOCKED_BY_BUDGET, {**labels(seen.key), "pdb_name": budget})


def unmanageable(about: Ref, reason: Reason) -> Problem:
    """What the author of a workload wrote cannot be followed."""
    error = Counter(ERRORS, {**labels(about.key), "error_type": reason.code})
    return Problem(about, reason.code, reason.message, counts=(error,))


def other_installations(seen: Seen) -> Iterator[Problem]:
    """Told whether or not anything should move: sooner or later the two differ."""
    other = placed_by_another(seen)
    if other is not None:
        message = (
            f"{seen.key}: the installation in namespace {other.annotations[PLACED_BY]} gives its new pods their class, and the one in "
            f"{seen.settings.installation} manages it, too. Nothing is moved from here meanwhile. Give each installation its own "
            "operator.watchNamespaces or placement.namespaceSelector, or remove one."
        )
        yield Problem(seen.ref, "AnotherInstallation", message)


def namespace_problems(seen: Seen) -> Iterator[Problem]:
    """A namespace's window that cannot be read holds up every workload that relies on it."""
    _, faults, whose = window_of(seen)
    namespace = seen.view[NAMESPACES].get("", seen.workload.namespace)
    if faults and namespace is not None:
        message = f"{whose}: {'; '.join(str(fault) for fault in faults)}. Nothing is moved until this is mended."
        error = Counter(ERRORS, {**labels(seen.key), "error_type": INVALID})
        yield Problem(Ref.to(NAMESPACES, namespace), INVALID, message, counts=(error,))
