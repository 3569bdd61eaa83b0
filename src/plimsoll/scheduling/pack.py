"""Where would these pods run, and on which new nodes?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plimsoll.kube.types import Pod
from plimsoll.scheduling.classes import Classes
from plimsoll.scheduling.model import ComingNode, Packing, Template
from plimsoll.scheduling.plan import Group, Plan
from plimsoll.scheduling.snapshot import Snapshot

FEW_GROUPS = 400


def pack(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    templates: Iterable[Template] = (),
    *,
    coming: Iterable[ComingNode] = (),
) -> Packing:
    """Place `pods` on the snapshot's nodes, on `coming` ones and on new nodes of `templates`. The snapshot stays as it is.

    A pod that already runs in the snapshot is taken for one that has to move.
    """
    pods = tuple(pods)
    with snapshot.trial():
        for pod in pods:
            if pod.metadata.uid in snapshot.slots:
                snapshot.remove(pod.metadata.uid)
        groups = grouped(snapshot.classes, pods)
        return _cheaper(snapshot, groups, tuple(templates), tuple(coming)).result()


def _cheaper(
    snapshot: Snapshot, groups: list[Group], templates: tuple[Template, ...], coming: tuple[ComingNode, ...]
) -> Plan:
    """The plan by groups, or the one that places one pod after the other where that needs fewer nodes or less money.

    Where only rules (a node each, say) decided how many nodes there are, the second has nothing to gain and is left out, unless
    there is so little to place that it costs nothing to look.
    """
    plan = Plan(snapshot, groups, templates, coming)
    plan.run()
    if not templates or (len(groups) > FEW_GROUPS and not plan.placer.opened_for_room):
        return plan
    greedy = Plan(snapshot, groups, templates, coming, first_fit=True)
    greedy.run()
    if plan.unplaced != greedy.unplaced:
        return min(plan, greedy, key=lambda p: p.unplaced)
    (nodes, price), (greedy_nodes, greedy_price) = plan.cost, greedy.cost
    return plan if nodes <= greedy_nodes and price <= greedy_price else greedy


def grouped(classes: Classes, pods: Sequence[Pod]) -> list[Group]:
    groups: dict[tuple[int, int], Group] = {}
    for pod in pods:
        key = classes.of(pod)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(classes.classes[key[0]], classes.shapes[key[1]])
        group.pods.append(pod.metadata.uid)
    return list(groups.values())
