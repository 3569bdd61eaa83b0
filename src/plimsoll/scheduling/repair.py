"""Repairs topology spread that later pods of a plan broke, by moving pods. Called by `plan`.

Each attempt places everything again and is kept if it leaves fewer pods unplaced or, at the same number, fewer
violations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plimsoll.scheduling.skew_violations import NOBODY, MoveTarget, Pods, SkewViolations

if TYPE_CHECKING:
    from plimsoll.scheduling.plan import PackingPlan

_MOVED_ALONE = 16  # pods at most; each attempt costs as much as all placements before it
_PLACED_AGAIN = 1_000  # placements spent on single moves: small plans try more of them
_FEW_GROUPS = 200  # up to so many groups are quickly placed in another order


class ReplayOptions(NamedTuple):
    """How to place everything again; by default as before."""

    but: Pods = NOBODY  # pods that are not put back where they were and come after the others
    to: MoveTarget = MoveTarget()  # where those pods go
    others_stay: bool = False  # even where they break a spread
    # pods with an affinity first: otherwise they would have to follow their group elsewhere
    affinity_first: bool = False
    last: frozenset[int] = frozenset()  # groups that come after all others
    may_open: bool = True  # whether further nodes may be opened


UNCHANGED = ReplayOptions()


def repair(plan: PackingPlan) -> None:
    """Move the excess pods; then all late pods; then the early ones; then single pods.

    If nothing helps, place the pods with broken spread after all others.
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
    """Move one pod at a time, as long as that leaves fewer violations."""
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
            moved = _try(plan, alone) or _try(plan, alone._replace(affinity_first=True))
        else:  # a node could still be enlarged for it, which only an attempt shows
            moved = few > _MOVED_ALONE and _try(plan, ReplayOptions(frozenset((pod,)), others_stay=True))
        if moved:
            candidates = plan.skew_violations.candidates()


def _try(plan: PackingPlan, options: ReplayOptions) -> bool:
    """Place everything again; keep the result if it is better."""
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
