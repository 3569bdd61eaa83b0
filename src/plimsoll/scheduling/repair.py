"""Where late pods of a plan broke the spread of earlier ones: look again, and let some move.

Each try places everything once more and is kept if it leaves fewer pods unplaced or, of as many, fewer disturbed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plimsoll.scheduling.skew_violations import NOBODY, MoveTarget, Pods, SkewViolations

if TYPE_CHECKING:
    from plimsoll.scheduling.plan import PackingPlan

_MOVED_ALONE = 16  # pods at most; each costs as much as all placements before it
_PLACED_AGAIN = 1_000  # pods for the sake of single ones: in small plans more of those are tried
_FEW_GROUPS = 200  # so many are quickly placed in another order


class ReplayOptions(NamedTuple):
    """How to place everything once more; as it was, unless something else is said."""

    but: Pods = NOBODY  # not put where they were: they come after the others
    to: MoveTarget = MoveTarget()  # where those go
    others_stay: bool = False  # even where they break a spread
    company_first: bool = False  # those with an affinity: one that comes after its like elsewhere has to join them
    last: frozenset[int] = frozenset()  # groups that come after all others
    may_open: bool = True  # further nodes


UNCHANGED = ReplayOptions()


def repair(plan: PackingPlan) -> None:
    """Let as many move as are too many where they are; then all late ones; then the early ones; then one after the other. If all
    that is in vain, place those that are disturbed after everybody else.
    """
    if not plan.skew_violations.disturbed():
        return
    too_many, disturbed = SkewViolations.too_many, SkewViolations.disturbed
    for who_moves in (too_many, too_many, None, disturbed, too_many, too_many):
        _try(plan, ReplayOptions(who_moves(plan.skew_violations)) if who_moves else UNCHANGED)
        if not plan.skew_violations.disturbed():
            return
    for pod in plan.skew_violations.excess_pods()[:_MOVED_ALONE]:
        _try(plan, ReplayOptions(frozenset((pod,))))
        if not plan.skew_violations.disturbed():
            return
    _move_single_pods(plan)
    left = plan.skew_violations.disturbed()
    if not left or len(plan.groups) >= _FEW_GROUPS or not plan.skew_violations.candidates():
        return
    if _try(plan, ReplayOptions(plan.skew_violations.everybody(), last=plan.skew_violations.groups_of(left))):
        _move_single_pods(plan)


def _move_single_pods(plan: PackingPlan) -> None:
    """Everyone stays but one, as long as that leaves fewer pods disturbed."""
    few = _PLACED_AGAIN // len(plan.skew_violations.everybody())
    tries = max(_MOVED_ALONE, few)
    candidates = plan.skew_violations.candidates()
    while tries and candidates:
        pod, index, row = candidates.pop()
        tries -= 1
        group = plan.groups[index]
        goal = plan.skew_violations.better_place(plan.placer.constraints(group.pod_class), group.shape, row)
        if goal is not None:
            alone = ReplayOptions(frozenset((pod,)), goal, others_stay=True)
            moved = _try(plan, alone) or _try(plan, alone._replace(company_first=True))
        else:  # a node could still be made larger for it, which only trying shows
            moved = few > _MOVED_ALONE and _try(plan, ReplayOptions(frozenset((pod,)), others_stay=True))
        if moved:
            candidates = plan.skew_violations.candidates()


def _try(plan: PackingPlan, options: ReplayOptions) -> bool:
    """Place everything once more; keep that if it is better."""
    before = (plan.state, plan.placer, plan.placed, plan.left.copy())
    unplaced, disturbed = plan.unplaced, len(plan.skew_violations.disturbed())
    plan.replay(options)
    if plan.relied_on_fewer_rows() or plan.counts_nodes_not_made():
        plan.replay(ReplayOptions(others_stay=options.others_stay))
    worse = (plan.unplaced, len(plan.skew_violations.disturbed())) >= (unplaced, disturbed)
    if worse or plan.relied_on_fewer_rows():
        plan.state, plan.placer, plan.placed, plan.left = before
        return False
    return True
