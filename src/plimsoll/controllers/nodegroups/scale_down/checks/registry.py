"""The removal checks, in the order in which they are made: the cheapest first.

To add a check, write a function of the shape `CheckFunction` in `group` or `pods` and add one line here. The codes of the
blockers are those of Cluster Autoscaler where it has one.
"""

from __future__ import annotations

from plimsoll.controllers.nodegroups.scale_down.checks.check import Check, Stage
from plimsoll.controllers.nodegroups.scale_down.checks.group import (
    group_cooldown,
    group_minimum,
    group_surplus,
    other_installation,
    recently_blocked,
    zone_balance,
)
from plimsoll.controllers.nodegroups.scale_down.checks.pods import (
    budgets,
    held_allocations,
    local_storage,
    opt_outs,
    placeable,
    pods_expected,
    replicated,
    system_pods,
)

PODS_EXPECTED = Check("pods-expected", "node", pods_expected)  # also made when a drain begins

CHECKS: tuple[Check, ...] = (
    Check("other-installation", "group", other_installation),
    Check("minimum-size", "group", group_minimum),
    Check("surplus", "group", group_surplus),
    Check("cooldown", "group", group_cooldown),
    Check("zone-balance", "group", zone_balance),
    Check("recently-blocked", "node", recently_blocked),
    PODS_EXPECTED,
    Check("opt-outs", "pods", opt_outs),
    Check("system-pods", "pods", system_pods),
    Check("replicated", "pods", replicated),
    Check("local-storage", "pods", local_storage),
    Check("allocations", "pods", held_allocations),
    Check("disruption-budgets", "eviction", budgets),
    Check("placeable", "packing", placeable),
)


def checks_at(*stages: Stage) -> tuple[Check, ...]:
    return tuple(check for check in CHECKS if check.stage in stages)
