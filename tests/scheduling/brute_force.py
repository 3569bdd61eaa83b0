"""Every possibility, one after the other: what is not found here does not exist. For small cases only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from plimsoll.kube.types.core import Pod
from tests.scheduling.cases import Case, Plan
from tests.scheduling.checker import Placement, Situation, after

# Pods below it wait for room; nobody buys a node for them.
LOWEST_PRIORITY_THAT_SCALES = -10


def place_for(case: Case, plan: Plan, pod: Pod) -> str | None:
    """Where a pod could still go once the plan is carried out: a node that is there, or one more that may be made for it.

    Nobody makes a node for the sake of the daemon alone that would keep the pod company from there.
    """
    if pod.spec.scheduling_gates:
        return None
    for name in open_to(after(plan.before, plan.placements), pod):
        return name
    if pod.spec.priority >= LOWEST_PRIORITY_THAT_SCALES:
        for one_more, before in with_one_more_node(case, plan):
            if one_more in open_to(after(before, plan.placements), pod):
                return one_more
    return None


def with_one_more_node(case: Case, plan: Plan) -> Iterator[tuple[str, Situation]]:
    """What the plan starts from, each time with another node that could still be bought, by its name."""
    made = Counter(new.template for new in plan.packing.new_nodes)
    sold = Counter((new.template, new.offering) for new in plan.packing.new_nodes)
    for template in case.templates:
        if template.max_nodes is not None and made[template.name] >= template.max_nodes:
            continue
        for offering in template.offerings:
            if offering.available is None or sold[template.name, offering.name] < offering.available:
                larger = plan.before.copy()
                name = f"one more of {template.name} as {offering.name}"
                case.make_node(larger, name, template, offering)
                yield name, larger


def open_to(now: Situation, pod: Pod, *, but: Iterable[str] = ()) -> list[str]:
    """The nodes that would have this pod now."""
    asked, closed = now.ask(pod), set(but)
    return [name for name, node in now.nodes.items() if name not in closed and not asked.refusals(node)]


def way_to_place(now: Situation, pods: Sequence[Pod], *, but: Iterable[str] = ()) -> list[Placement] | None:
    """An order and a place for each, so that all of them are accepted; None if there is no such order and places."""
    return _way(now.copy(), list(pods), set(but), dead_ends=set())


def order_of(now: Situation, placements: Sequence[Placement]) -> list[Placement] | None:
    """An order in which each of these placements is accepted when its turn comes; None if there is none."""
    places = {id(placement.pod): placement.node_name for placement in placements}
    return _way(now.copy(), [placement.pod for placement in placements], set(), dead_ends=set(), places=places)


def _way(
    now: Situation,
    waiting: list[Pod],
    closed: set[str],
    *,
    dead_ends: set[frozenset[tuple[int, str]]],
    places: Mapping[int, str] | None = None,
) -> list[Placement] | None:
    if not waiting:
        return []
    # Who stands where decides what can follow, not the order in which they came.
    standing = frozenset((id(pod), name) for name, pods in now.pods_on.items() for pod in pods)
    if standing in dead_ends:
        return None
    for pod in waiting:
        rest = [other for other in waiting if other is not pod]
        for name in open_to(now, pod, but=closed):
            if places is not None and places[id(pod)] != name:
                continue
            now.place(pod, name)
            found = _way(now, rest, closed, dead_ends=dead_ends, places=places)
            now.take(pod, name)
            if found is not None:
                return [Placement(pod, name), *found]
    dead_ends.add(standing)
    return None
