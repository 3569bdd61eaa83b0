"""Pauses after failures, as Cluster Autoscaler has them: 5m, 10m, 20m, then 30m.

A failure that depends on the offering (sold out, never created, never joined, never used by a pod) pauses that offering alone; every
other failure pauses the group. Pauses are in the group's status, so that a
restart keeps them, and are keyed by the time of the failure, so that recording a failure twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import (
    ORDERED_FOR,
    PENDING_PODS,
    NodeGroup,
    OfferingBackoff,
    VPSieNode,
    find_condition,
)

# Failures that say something about the offering rather than about the account or the provider.
OFFERING_FAILURES = ("OfferingUnavailable", "ProvisioningTimeout", "MachineFailed", "JoiningTimeout")


def active_backoff(backoffs: Sequence[OfferingBackoff], now: datetime, offering: str = "") -> OfferingBackoff | None:
    """The pause of an offering that lasts at `now`; of the whole group if `offering` is empty."""
    for backoff in backoffs:
        if backoff.offering == offering and backoff.until is not None and backoff.until > now:
            return backoff
    return None


def failure_backoff(node: VPSieNode) -> OfferingBackoff | None:
    """What a VPSieNode contributes to its group's pauses: its failure, or that it is removed without ever having run a pod."""
    if never_served(node):
        message = f"node {node.node_name} was ordered for pending pods and is removed without having run one"
        return OfferingBackoff(node.spec.instance_type, "NeverServed", message, last_failure=node.status.terminating_at)
    if node.status.phase != "Failed":
        return None
    condition = find_condition(node, "Failed")
    if condition is None or condition.last_transition_time is None:
        return None
    offering = node.spec.instance_type if condition.reason in OFFERING_FAILURES else ""
    return OfferingBackoff(offering, condition.reason, condition.message, last_failure=condition.last_transition_time)


def never_served(node: VPSieNode) -> bool:
    """Whether scale-down removes a node that was ordered for pending pods and never ran one (S15)."""
    draining = find_condition(node, "Draining")
    return (
        node.phase in ("Terminating", "Deleting")
        and node.annotations.get(ORDERED_FOR) == PENDING_PODS
        and node.status.first_pod_at is None
        and node.status.terminating_at is not None
        and draining is not None
        and (draining.status, draining.reason) == ("True", "ScaleDown")
    )


def failure_recorded(node: VPSieNode, group: NodeGroup) -> bool:
    """Whether the group's status contains the failure of this node. Until then the VPSieNode must not be deleted."""
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
