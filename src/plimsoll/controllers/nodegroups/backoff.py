"""A group that failed is left alone for a while, longer each time; another group may help meanwhile.

5m, 10m, 20m, 30m, 30m … as Cluster Autoscaler has it. What is sold out holds back that offering alone, a quota the whole group. It is
kept in the group's status, so that a restart does not start from the beginning, and entered by the time of the failure: entered twice
it is still one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NodeGroup, Setback, VPSieNode, condition_of


def failure_of(node: VPSieNode) -> Setback | None:
    """What this node's failure means for its group."""
    if node.status.phase != "Failed":
        return None
    condition = condition_of(node, "Failed")
    if condition is None or condition.last_transition_time is None:
        return None
    offering = node.spec.instance_type if condition.reason == "OfferingUnavailable" else ""
    return Setback(offering, condition.reason, condition.message, last_failure=condition.last_transition_time)


def accounted(node: VPSieNode, group: NodeGroup) -> bool:
    failure = failure_of(node)
    if failure is None or failure.last_failure is None:
        return True
    entered = _named(group.status.setbacks, failure.offering)
    return entered is not None and entered.last_failure is not None and entered.last_failure >= failure.last_failure


def with_failures(
    group: NodeGroup, members: Iterable[VPSieNode], settings: NodeGroupSettings, now: datetime
) -> tuple[Setback, ...]:
    """The group's setbacks after these nodes' failures; those that are long over are dropped."""
    found = {setback.offering: setback for setback in group.status.setbacks}
    failures = [failure for member in members if (failure := failure_of(member)) is not None]
    for failure in sorted(failures, key=lambda one: one.last_failure or now):
        before = found.get(failure.offering)
        at = failure.last_failure or now
        if before is not None and before.last_failure is not None and before.last_failure >= at:
            continue
        # Several nodes of one order fail together: while a setback lasts, further failures do not make it longer.
        if before is not None and before.until is not None and at < before.until:
            found[failure.offering] = Setback(
                failure.offering, failure.reason, failure.message, before.failures, at, before.until
            )
            continue
        recent = before is not None and before.until is not None and at - before.until < settings.backoff_reset
        failed_before = before.failures if before is not None and recent else 0
        wait = min(settings.backoff_base * 2 ** min(failed_before, 10), settings.backoff_cap)
        found[failure.offering] = Setback(
            failure.offering, failure.reason, failure.message, failed_before + 1, at, at + wait
        )
    return tuple(
        setback
        for _, setback in sorted(found.items())
        if setback.until is not None and now - setback.until < settings.backoff_reset
    )


def _named(setbacks: Iterable[Setback], offering: str) -> Setback | None:
    return next((setback for setback in setbacks if setback.offering == offering), None)
