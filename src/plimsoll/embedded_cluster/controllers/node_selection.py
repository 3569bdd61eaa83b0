"""Chooses a node for each pending pod in one pass over a plan state that every binding updates.

`plimsoll.scheduling` decides feasibility, scoring follows kube-scheduler. If no node fits, `preemption` may make room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from plimsoll.embedded_cluster.api.json_documents import Json, controller_of, name_of, namespace_of, terminating, uid_of
from plimsoll.embedded_cluster.api.kinds import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES
from plimsoll.embedded_cluster.api.storage import Storage
from plimsoll.embedded_cluster.controllers.context import ControllerContext
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Namespace, Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.explain import no_existing_node, unschedulable_everywhere
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_equivalence import PodClass, Shape
from plimsoll.scheduling.snapshot import CacheChange as Moved
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.static_feasibility import StaticFeasibility

_ZONE = "topology.kubernetes.io/zone"
Score = NDArray[np.float64]


def snapshot_of(storage: Storage) -> Snapshot:
    return Snapshot.build(
        (convert(node, Node) for node in storage.collection(NODES).all()),
        (convert(pod, Pod) for pod in storage.collection(PODS).all() if pod["spec"].get("nodeName")),
        namespaces=(convert(one, Namespace) for one in storage.collection(NAMESPACES).all()),
        claims=(convert(one, PersistentVolumeClaim) for one in storage.collection(CLAIMS).all()),
        volumes=(convert(one, PersistentVolume) for one in storage.collection(VOLUMES).all()),
    )


def follow(snapshot: Snapshot, obj: KubeObject, *, gone: bool = False) -> None:
    snapshot.apply([Moved(obj, None) if gone else Moved(None, obj)])


def place_all(snapshot: Snapshot, context: ControllerContext, waiting: Iterable[Json]) -> Iterator[tuple[Json, str]]:
    """Bind every pod that fits; yield each other pod with the reason."""
    pods = list(waiting)
    classes = {uid_of(pod): snapshot.classes.of(convert(pod, Pod)) for pod in pods}
    in_play = dict.fromkeys(snapshot.classes.classes[index] for index, _ in classes.values())
    turn = _Round(PlanState(snapshot, in_play), context)
    for pod in pods:
        class_index, shape_index = classes[uid_of(pod)]
        refusal = turn.place(pod, snapshot.classes.classes[class_index], snapshot.classes.shapes[shape_index])
        if refusal:
            yield pod, refusal


class _Round:
    """The state of one pass."""

    def __init__(self, board: PlanState, context: ControllerContext) -> None:
        self._board = board
        self._context = context
        self._views: dict[int, ClassConstraints] = {}
        self._siblings: dict[str, Score] = {}  # by owner: number of its pods per row
        rows = [row for row, facts in enumerate(board.snapshot.nodes) if facts is not None]
        self._size = board.snapshot.capacity[:, rows].astype(np.float64)
        numbers: dict[str, int] = {}
        named = [place.labels.get(_ZONE, "") for place in board.node_traits]
        self._zones = np.array([numbers.setdefault(zone, len(numbers)) for zone in named], np.int64)
        self._rows = {name: row for row, name in enumerate(board.names)}

    def place(self, pod: Json, pod_class: PodClass, shape: Shape) -> str:
        """Bind the pod to the best node, or return why none fits."""
        view = self._view(pod_class)
        refusal = unschedulable_everywhere(view)
        if refusal is not None:
            return str(refusal)
        board = self._board
        fits = view.mask()[: board.size].copy()
        for resource, amount in shape:
            fits &= board.free[resource, : board.size] >= amount
        rows = fits.nonzero()[0]
        if not len(rows):
            return str(no_existing_node(view, shape))
        scores = self._scores(pod, view, shape)[rows]
        best = rows[scores >= scores.max() - 1e-9]
        row = int(best[self._context.rng.randrange(len(best))])
        board.place_one(view.pod_class, shape, row, 1)
        node = board.names[row]
        owner = controller_of(pod)
        if owner is not None:
            self._siblings_of(owner["uid"])[row] += 1
        current = self._context.storage.get(PODS, namespace_of(pod), name_of(pod))
        if current is not None and uid_of(current) == uid_of(pod) and not terminating(current):
            bound = self._context.objects.bound(current, node)
            message = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
            self._context.record_pod_event(bound, "Scheduled", message, source="default-scheduler")
        return ""

    def _view(self, pod_class: PodClass) -> ClassConstraints:
        if pod_class.index not in self._views:
            self._views[pod_class.index] = ClassConstraints(
                self._board, pod_class, StaticFeasibility(self._board, pod_class)
            )
        return self._views[pod_class.index]

    def _scores(self, pod: Json, view: ClassConstraints, shape: Shape) -> Score:
        """Scores per node: free resources, few pods of the same owner, and above all the pod's preferences."""
        board = self._board
        wanted = dict(shape)
        score: Score = np.zeros(board.size)
        for resource in (0, 1):  # CPU and memory, if any pod requests them
            if resource < len(self._size):
                left = board.free[resource, : board.size] - wanted.get(resource, 0)
                score += 50.0 * np.divide(
                    left, self._size[resource], out=np.zeros(board.size), where=self._size[resource] > 0
                )
        # Default spreading for a pod without its own constraints: few siblings per node and per zone.
        owner = controller_of(pod)
        if owner is not None and not view.spreads and not view.pod_class.soft_spread:
            near = self._siblings_of(owner["uid"])
            in_zone = np.bincount(self._zones, near)[self._zones]
            for counts in (near, in_zone):
                score += 100.0 * (1 - counts / max(1.0, float(counts.max(initial=0.0))))
        if view.has_preferences:
            score += 2.0 * view.preference_scores()[: board.size]
        return score

    def _siblings_of(self, owner: str) -> Score:
        if owner not in self._siblings:
            counts = self._siblings[owner] = np.zeros(self._board.size)
            for pod in self._context.storage.owned_by(PODS, owner):
                row = self._rows.get(pod["spec"].get("nodeName", ""))
                if row is not None and not terminating(pod):
                    counts[row] += 1
        return self._siblings[owner]
