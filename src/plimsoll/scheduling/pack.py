"""Where would these pods run, and on which new nodes?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plimsoll.kube.types import Pod
from plimsoll.scheduling.classes import Classes
from plimsoll.scheduling.model import ComingNode, Packing, Template
from plimsoll.scheduling.plan import Group, Plan
from plimsoll.scheduling.snapshot import Snapshot


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
        plan = Plan(snapshot, groups, tuple(templates), tuple(coming))
        plan.run()
        return plan.result()


def grouped(classes: Classes, pods: Sequence[Pod]) -> list[Group]:
    groups: dict[tuple[int, int], Group] = {}
    for pod in pods:
        key = classes.of(pod)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(classes.classes[key[0]], classes.shapes[key[1]])
        group.pods.append(pod.metadata.uid)
    return list(groups.values())
