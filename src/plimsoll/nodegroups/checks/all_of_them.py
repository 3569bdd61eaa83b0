"""Which checks are made, in the order in which they are made: the cheapest first."""

from __future__ import annotations

from plimsoll.decision import Blocker
from plimsoll.nodegroups.checks.allocations import allocations
from plimsoll.nodegroups.checks.budgets import budgets
from plimsoll.nodegroups.checks.cooldown import cooldown
from plimsoll.nodegroups.checks.expected import pods_expected
from plimsoll.nodegroups.checks.local_storage import local_storage
from plimsoll.nodegroups.checks.minimum import minimum
from plimsoll.nodegroups.checks.opt_outs import opt_outs
from plimsoll.nodegroups.checks.other_installation import other_installation
from plimsoll.nodegroups.checks.placeable import placeable
from plimsoll.nodegroups.checks.recently_blocked import recently_blocked
from plimsoll.nodegroups.checks.replicas import replicas
from plimsoll.nodegroups.checks.system_pods import system_pods
from plimsoll.nodegroups.checks.zone_balance import zone_balance
from plimsoll.nodegroups.situation import Candidate, Check, Situation

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
