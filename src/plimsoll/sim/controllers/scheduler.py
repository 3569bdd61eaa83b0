"""The scheduler: which node each pod gets. What is allowed is decided by `plimsoll.scheduling`; what is best, as in kube-scheduler.

Left out, because nobody here asks for it: preemption, and extenders.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.codec import convert
from plimsoll.kube.types import Namespace, Node, Pod
from plimsoll.scheduling.board import Board
from plimsoll.scheduling.classes import PodClass, Shape
from plimsoll.scheduling.grounds import Grounds
from plimsoll.scheduling.reasons import refused_by_existing, refused_everywhere
from plimsoll.scheduling.snapshot import Change as Moved
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.views import View
from plimsoll.sim.api.documents import (
    Json,
    at,
    condition,
    conditions_with,
    controller_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.sim.api.kinds import NAMESPACES, NODES, PODS
from plimsoll.sim.api.storage import Change
from plimsoll.sim.controllers.context import Context, Key, key_of
from plimsoll.sim.controllers.pods import finished

_NAME = "default-scheduler"
_ZONE = "topology.kubernetes.io/zone"
_PASS: Key = ("", "pass")
Score = NDArray[np.float64]


class Scheduler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, Key] = {}  # pods to be placed, by UID, in the order in which they came
        self._snapshot: Snapshot | None = None  # made when the first pod waits
        context.on_change(PODS, self._pod_changed)
        context.on_change(NODES, self._node_changed)
        context.on_change(NAMESPACES, self._namespace_changed)

    # ── following the cluster ────────────────────────────────────────────────────────────────────────────────────────

    def _pod_changed(self, change: Change) -> None:
        pod, before = change.object, change.before
        uid = uid_of(pod)
        gone = change.type == "DELETED" or finished(pod)
        node = "" if gone else pod["spec"].get("nodeName", "")
        was = before["spec"].get("nodeName", "") if before is not None and not finished(before) else ""
        if node != was or (was and gone):
            if self._snapshot is not None:
                self._snapshot.remove(uid)
                if node:
                    self._snapshot.add(convert(pod, Pod), node)
            if was and self._waiting:
                self._pass()  # room was made
        if gone or node or terminating(pod) or pod["spec"].get("schedulerName", _NAME) != _NAME:
            self._waiting.pop(uid, None)
        elif uid not in self._waiting or before is None or before["spec"] != pod["spec"]:
            self._waiting[uid] = key_of(pod)
            self._pass()

    def _node_changed(self, change: Change) -> None:
        before, after = change.before, change.object
        looks = ("spec", "metadata.labels", "status.allocatable")
        if change.type == "MODIFIED" and all(
            at(before or {}, *p.split(".")) == at(after, *p.split(".")) for p in looks
        ):
            return
        if self._snapshot is not None:
            if change.type == "DELETED":
                self._snapshot.remove_node(name_of(after))
            else:
                self._snapshot.apply([Moved(None, convert(after, Node))])
        if self._waiting:
            self._pass()

    def _namespace_changed(self, change: Change) -> None:
        if self._snapshot is not None and change.type != "DELETED":
            self._snapshot.apply([Moved(None, convert(change.object, Namespace))])

    def _pass(self) -> None:
        self._context.work.add(self.reconcile, _PASS)

    def _seen(self) -> Snapshot:
        if self._snapshot is None:
            storage = self._context.storage
            self._snapshot = Snapshot.build(
                (convert(node, Node) for node in storage.collection(NODES).all()),
                (convert(pod, Pod) for pod in storage.collection(PODS).all() if pod["spec"].get("nodeName")),
                namespaces=(convert(one, Namespace) for one in storage.collection(NAMESPACES).all()),
            )
        return self._snapshot

    # ── placing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def reconcile(self, key: Key) -> None:
        """One pass over everything that waits, the highest priority first and else in the order of arrival."""
        del key
        storage = self._context.storage
        found = [(uid, storage.get(PODS, *where)) for uid, where in self._waiting.items()]
        waiting = [pod for uid, pod in found if pod is not None and uid_of(pod) == uid]
        if not waiting:
            return
        waiting.sort(key=lambda pod: -at(pod, "spec", "priority", default=0))
        snapshot = self._seen()
        typed = {uid_of(pod): convert(pod, Pod) for pod in waiting}
        classes = {uid: snapshot.classes.of(pod) for uid, pod in typed.items()}
        in_play = dict.fromkeys(snapshot.classes.classes[index] for index, _ in classes.values())
        round_ = _Round(Board(snapshot, in_play), self._context)
        for pod in waiting:
            class_index, shape_index = classes[uid_of(pod)]
            refusal = round_.place(pod, snapshot.classes.classes[class_index], snapshot.classes.shapes[shape_index])
            if refusal:
                self._refuse(pod, refusal)

    def _refuse(self, pod: Json, message: str) -> None:
        before = condition(pod, "PodScheduled")
        if before is not None and before.get("message") == message:
            return
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        conditions = conditions_with(pod, refused, self._context.stamp())
        self._context.put_status(PODS, pod, {**pod["status"], "conditions": conditions})
        self._context.tell(PODS, pod, "FailedScheduling", message, source=_NAME, warning=True)


class _Round:
    """The state of one pass: a board that every placed pod changes at once."""

    def __init__(self, board: Board, context: Context) -> None:
        self._board = board
        self._context = context
        self._views: dict[int, View] = {}
        self._near: dict[str, Score] = {}  # by row: pods of an owner
        rows = [row for row, facts in enumerate(board.snapshot.nodes) if facts is not None]
        self._size = board.snapshot.capacity[:, rows].astype(np.float64)
        numbers: dict[str, int] = {}
        named = [place.labels.get(_ZONE, "") for place in board.places]
        self._zones = np.array([numbers.setdefault(zone, len(numbers)) for zone in named], np.int64)
        self._rows = {name: row for row, name in enumerate(board.names)}

    def place(self, pod: Json, pod_class: PodClass, shape: Shape) -> str:
        """Bind the pod to the best node; or why there is none."""
        view = self._view(pod_class)
        refusal = refused_everywhere(view)
        if refusal is not None:
            return str(refusal)
        board = self._board
        fits = view.mask()[: board.size].copy()
        for resource, amount in shape:
            fits &= board.free[resource, : board.size] >= amount
        rows = fits.nonzero()[0]
        if not len(rows):
            return str(refused_by_existing(view, shape))
        scores = self._scores(pod, view, shape)[rows]
        best = rows[scores >= scores.max() - 1e-9]
        row = int(best[self._context.rng.randrange(len(best))])
        board.place_one(view.pod_class, shape, row, 1)
        node = board.names[row]
        owner = controller_of(pod)
        if owner is not None:
            self._near_of(owner["uid"])[row] += 1
        current = self._context.storage.get(PODS, namespace_of(pod), name_of(pod))
        if current is not None and uid_of(current) == uid_of(pod) and not terminating(current):
            self._context.objects.bound(current, node)
        return ""

    def _view(self, pod_class: PodClass) -> View:
        if pod_class.index not in self._views:
            self._views[pod_class.index] = View(self._board, pod_class, Grounds(self._board, pod_class))
        return self._views[pod_class.index]

    def _scores(self, pod: Json, view: View, shape: Shape) -> Score:
        """Emptier nodes are better; so are those with fewer siblings, and above all those that the pod prefers."""
        board = self._board
        wanted = dict(shape)
        score: Score = np.zeros(board.size)
        for resource in (0, 1):  # CPU and memory, as far as anyone asks for them
            if resource < len(self._size):
                left = board.free[resource, : board.size] - wanted.get(resource, 0)
                score += 50.0 * np.divide(
                    left, self._size[resource], out=np.zeros(board.size), where=self._size[resource] > 0
                )
        # What a pod without a spread of its own gets: few siblings on a node, and in a zone.
        owner = controller_of(pod)
        if owner is not None and not view.spreads and not view.pod_class.soft_spread:
            near = self._near_of(owner["uid"])
            in_zone = np.bincount(self._zones, near)[self._zones]
            for counts in (near, in_zone):
                score += 100.0 * (1 - counts / max(1.0, float(counts.max(initial=0.0))))
        if view.has_preferences:
            score += 2.0 * view.liking()[: board.size]
        return score

    def _near_of(self, owner: str) -> Score:
        if owner not in self._near:
            counts = self._near[owner] = np.zeros(self._board.size)
            for pod in self._context.storage.owned_by(PODS, owner):
                row = self._rows.get(pod["spec"].get("nodeName", ""))
                if row is not None and not terminating(pod):
                    counts[row] += 1
        return self._near[owner]
