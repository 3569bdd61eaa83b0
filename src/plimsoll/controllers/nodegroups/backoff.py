"""Pauses after failures, as Cluster Autoscaler has them: 5m, 10m, 20m, then 30m.

A sold-out offering pauses that offering alone; every other failure pauses the group. Pauses are in the group's status, so that a
restart keeps them, and are keyed by the time of the failure, so that recording a failure twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NodeGroup, OfferingBackoff, VPSieNode, find_condition


def active_backoff(backoffs: Sequence[OfferingBackoff], now: datetime, offering: str = "") -> OfferingBackoff | None:
    """The pause of an offering that lasts at `now`; of the whole group if `offering` is empty."""
    for backoff in backoffs:
        if backoff.offering == offering and backoff.until is not None and backoff.until > now:
            return backoff
    return None


def failure_backoff(node: VPSieNode) -> OfferingBackoff | None:
    """What a failed VPSieNode contributes to its group's pauses; None for a node that has not failed."""
    if node.status.phase != "Failed":
        return None
    condition = find_condition(node, "Failed")
    if condition is None or condition.last_transition_time is None:
        return None
    offering = node.spec.instance_type if condition.reason == "OfferingUnavailable" else ""
    return OfferingBackoff(offering, condition.reason, condition.message, last_failure=condition.last_transition_time)


def failure_recorded(node: VPSieNode, group: NodeGroup) -> bool:
    """Whether the group's status contains the failure of this node; only then may the node be removed."""
    failure = failure_backoff(node)
    if failure is None or failure.last_failure is None:
        return True
    recorded = next((one for one in group.status.backoffs if one.offering == failure.offering), None)
    return recorded is not None and recorded.last_failure is not None and recorded.last_failure >= failure.last_failure


def backoffs_after_failures(
    group: NodeGroup, failed: Iterable[VPSieNode], settings: NodeGroupSettings, now: datetime
) -> tuple[OfferingBackoff, ...]:
    """The group's pauses including the failures of these nodes. Pauses that ended `backoff_reset` ago are dropped."""
    found = {backoff.offering: backoff for backoff in group.status.backoffs}
    failures = [failure for member in failed if (failure := failure_backoff(member)) is not None]
    for failure in sorted(failures, key=lambda one: one.last_failure or now):
        before = found.get(failure.offering)
        at = failure.last_failure or now
        if before is not None and before.last_failure is not None and before.last_failure >= at:
            continue
        # Nodes that were ordered together fail together: a failure during a pause does not lengthen it.
        if before is not None and before.until is not None and at < before.until:
            found[failure.offering] = OfferingBackoff(
                failure.offering, failure.reason, failure.message, before.failures, at, before.until
            )
            continue
        recent = before is not None and before.until is not None and at - before.until < settings.backoff_reset
        failures_before = before.failures if before is not None and recent else 0
        wait = min(settings.backoff_base * 2 ** min(failures_before, 10), settings.backoff_cap)
        found[failure.offering] = OfferingBackoff(
            failure.offering, failure.reason, failure.message, failures_before + 1, at, at + wait
        )
    return tuple(
        backoff
        for _, backoff in sorted(found.items())
        if backoff.until is not None and now - backoff.until < settings.backoff_reset
    )
