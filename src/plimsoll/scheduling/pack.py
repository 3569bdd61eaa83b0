"""Where would these pods run, and on which new nodes?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.gc_pause import gc_paused
from plimsoll.scheduling.model import ComingNode, Packing, Template
from plimsoll.scheduling.plan import PackingPlan
from plimsoll.scheduling.pod_groups import PodsToPlace, waiting
from plimsoll.scheduling.snapshot import Snapshot

FEW_GROUPS = 200


class PackingRequest(NamedTuple):
    """A packing to be found, with everything that it takes: what is handed to a worker process."""

    snapshot: Snapshot
    uids: list[str]  # of the pods, in the order in which they were given; elsewhere a pod is its number in that order
    waiting: PodsToPlace
    templates: tuple[Template, ...]
    coming: tuple[ComingNode, ...]
    headroom: bool


def pack(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    templates: Iterable[Template] = (),
    *,
    coming: Iterable[ComingNode] = (),
    headroom: bool = True,
) -> Packing:
    """Place `pods` on the snapshot's nodes, on `coming` ones and on new nodes of `templates`. The snapshot stays as it is.

    A pod that already runs in the snapshot is taken for one that has to move. Without `headroom`, new nodes are the cheapest that
    hold their pods; with it they are as much larger as kube-scheduler needs to bind the pods its own way, where it is not told
    where to put them. For that, `pods` should be in the order in which they were made.
    """
    with gc_paused(), packing_request(snapshot, pods, templates, coming=coming, headroom=headroom) as request:
        return solve(request)


@contextmanager
def packing_request(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    templates: Iterable[Template],
    *,
    coming: Iterable[ComingNode],
    headroom: bool,
) -> Iterator[PackingRequest]:
    """The question as it stands inside the block; afterwards the snapshot is as it was."""
    pods = pods if isinstance(pods, (list, tuple)) else tuple(pods)  # thousands are not copied without need
    with snapshot.trial():
        if snapshot.slots:
            for pod in pods:
                if pod.metadata.uid in snapshot.slots:
                    snapshot.remove(pod.metadata.uid)
        templates, coming = tuple(templates), tuple(coming)
        daemons = [d for template in templates for d in template.daemons] + [d for node in coming for d in node.daemons]
        who = waiting(snapshot.classes, pods, daemons)
        yield PackingRequest(snapshot, [pod.metadata.uid for pod in pods], who, templates, coming, headroom)


def solve(request: PackingRequest) -> Packing:
    return _cheaper(request).result(request.uids)


def _cheaper(request: PackingRequest) -> PackingPlan:
    """The plan by groups, or the one that places one pod after the other where that needs fewer nodes or less money.

    Both are sized for the same promise: with headroom, what counts is what each costs once it binds. Where only rules (a node each,
    say) decided how many nodes there are, the second has nothing to gain and is left out, unless there is so little to place that it
    costs nothing to look.
    """
    plan = _attempt(request)
    valid = plan.valid
    if valid and (not request.templates or (len(plan.groups) > FEW_GROUPS and not plan.placer.opened_for_room)):
        return plan
    greedy = _attempt(request, first_fit=True)
    if not valid:
        return greedy
    if plan.unplaced != greedy.unplaced:
        return min(plan, greedy, key=lambda p: p.unplaced)
    if plan.binds < greedy.binds:  # for as much money it may bind, too
        plan.add_headroom(at_most=greedy.cost.price)
    if plan.cost.nodes > greedy.cost.nodes:
        return greedy
    if plan.binds != greedy.binds:
        return max(plan, greedy, key=lambda one: one.binds)
    return min(plan, greedy, key=lambda one: one.cost.price)


def _attempt(request: PackingRequest, *, first_fit: bool = False) -> PackingPlan:
    plan = PackingPlan(request.snapshot, request.waiting, request.templates, request.coming, first_fit=first_fit)
    plan.run()
    if request.headroom:
        plan.add_headroom()
    return plan
