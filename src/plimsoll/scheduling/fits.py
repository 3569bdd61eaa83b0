"""Would this pod run on that node?"""

from __future__ import annotations

from plimsoll.kube.types import Pod
from plimsoll.scheduling.board import Board
from plimsoll.scheduling.grounds import Grounds
from plimsoll.scheduling.model import Refusal, Rule
from plimsoll.scheduling.reasons import first_refusal, refused_everywhere
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.views import View


def fits(snapshot: Snapshot, pod: Pod, node_name: str) -> Refusal | None:
    """None if kube-scheduler could place the pod there now; else the first rule that says no. Were it there already, it would move."""
    if node_name not in snapshot.rows:
        return Refusal(Rule.NODE_UNKNOWN, f"there is no node {node_name}")
    with snapshot.trial():
        snapshot.remove(pod.uid)
        class_index, shape_index = snapshot.classes.of(pod)
        pod_class = snapshot.classes.classes[class_index]
        board = Board(snapshot, (pod_class,))
        view = View(board, pod_class, Grounds(board, pod_class))
        shape = snapshot.classes.shapes[shape_index]
        return refused_everywhere(view) or first_refusal(view, shape, board.names.index(node_name))
