"""Which checks are made, in the order in which they are made: the cheapest first."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.scale_down.checks.group import (
    cooldown,
    minimum,
    other_installation,
    recently_blocked,
    zone_balance,
)
from plimsoll.controllers.nodegroups.scale_down.checks.opt_outs import opt_outs
from plimsoll.controllers.nodegroups.scale_down.checks.pdb import budgets
from plimsoll.controllers.nodegroups.scale_down.checks.pods import (
    allocations,
    local_storage,
    placeable,
    pods_expected,
    replicas,
    system_pods,
)
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Check, Situation
from plimsoll.runtime.decision import Blocker

# What holds for the pods themselves: asked before a node is chosen, and again all the while that it is drained.
ABOUT_PODS: tuple[Check, ...] = (opt_outs, system_pods, replicas, local_storage, allocations)
# What is asked only until the first pod is evicted: after that, a budget that is used up is the drain's own doing.
BEFORE_EVICTING: tuple[Check, ...] = (*ABOUT_PODS, budgets)
# What is the same for all nodes of a group that are in one zone.
OF_THE_GROUP: tuple[Check, ...] = (other_installation, minimum, cooldown, zone_balance)
BEFORE_CHOOSING: tuple[Check, ...] = (*OF_THE_GROUP, recently_blocked, pods_expected, *BEFORE_EVICTING)
LAST: Check = placeable


def first_blocker(checks: tuple[Check, ...], candidate: Candidate, situation: Situation) -> Blocker | None:
    for check in checks:
        blocker = check(candidate, situation)
        if blocker is not None:
            return blocker
    return None
