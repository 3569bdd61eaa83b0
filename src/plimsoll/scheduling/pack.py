"""Where would these pods run, and on which new nodes? Called by node groups, placement and `worker`."""

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
from plimsoll.scheduling.volume_limits import with_attachments

FEW_GROUPS = 200


class PackingRequest(NamedTuple):
    """One packing request with all its inputs. Sent to a worker process as it is."""

    snapshot: Snapshot
    uids: list[str]  # UIDs of the pods in the given order; elsewhere a pod is its index in that order
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
    """Place `pods` on the snapshot's nodes, on `coming` nodes and on new nodes of `templates`. The snapshot is not
    changed.

    A pod that already runs in the snapshot is treated as one that has to move. Without `headroom`, new nodes are the
    cheapest that hold their pods. With it, they are large enough for kube-scheduler to bind the pods in its own way;
    for that, `pods` should be in order of creation.
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
    """Yield the request, valid inside the block; afterwards the snapshot is unchanged."""
    pods = pods if isinstance(pods, (list, tuple)) else tuple(pods)  # avoid copying thousands of pods
    with snapshot.trial():
        if snapshot.slots:
            for pod in pods:
                if pod.metadata.uid in snapshot.slots:
                    snapshot.remove(pod.metadata.uid)
        templates, coming = tuple(templates), tuple(coming)
        daemons = [d for template in templates for d in template.daemons] + [d for node in coming for d in node.daemons]
        who = waiting(snapshot.classes, pods, daemons)
        who = who._replace(shape_of=with_attachments(snapshot, who.class_of, who.shape_of))
        yield PackingRequest(snapshot, [pod.metadata.uid for pod in pods], who, templates, coming, headroom)


def solve(request: PackingRequest) -> Packing:
    return _cheaper(request).result(request.uids)


def _cheaper(request: PackingRequest) -> PackingPlan:
    """Return the plan by groups, or the pod-by-pod plan where that needs fewer nodes or costs less.

    Both are sized for the same guarantee: with headroom, the price at which each binds is compared. Where only rules
    (such as one node per pod) decide the number of nodes, the second plan cannot win and is skipped, unless there is so
    little to place that it costs nothing to try.
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
    if plan.binds < greedy.binds:  # at the same price it may be the one that binds
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
