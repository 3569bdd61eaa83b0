"""Would this pod run on that node?"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.class_constraints import View
from plimsoll.scheduling.explain import first_refusal, refused_everywhere
from plimsoll.scheduling.model import Refusal, Rule
from plimsoll.scheduling.plan_state import Board
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.static_feasibility import Grounds


def fits(snapshot: Snapshot, pod: Pod, node_name: str) -> Refusal | None:
    """None if kube-scheduler could place the pod there now; else the first rule that says no. Were it there already, it would move."""
    return refusals(snapshot, pod, (node_name,))[node_name]


def refusals(snapshot: Snapshot, pod: Pod, node_names: Iterable[str]) -> dict[str, Refusal | None]:
    """`fits` for many nodes at once: what is asked of each is little beside what is made ready for the first."""
    with snapshot.trial():
        snapshot.remove(pod.uid)
        class_index, shape_index = snapshot.classes.of(pod)
        pod_class = snapshot.classes.classes[class_index]
        board = Board(snapshot, (pod_class,))
        view = View(board, pod_class, Grounds(board, pod_class))
        shape = snapshot.classes.shapes[shape_index]
        everywhere = refused_everywhere(view)
        rows = {name: row for row, name in enumerate(board.names)}
        return {
            name: (everywhere or first_refusal(view, shape, rows[name]))
            if name in snapshot.rows
            else Refusal(Rule.NODE_UNKNOWN, f"there is no node {name}")
            for name in node_names
        }
