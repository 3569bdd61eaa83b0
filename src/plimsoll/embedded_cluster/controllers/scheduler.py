"""The scheduler: which pods wait for a node, and when to try again. `placing` finds the node."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    condition,
    conditions_with,
    name_of,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import CLAIMS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, VOLUMES
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.controllers.context import Context, Key, key_of
from plimsoll.embedded_cluster.controllers.pods import finished
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Namespace, Node, Pod
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim

if TYPE_CHECKING:
    from plimsoll.scheduling.snapshot import Snapshot

_NAME = "default-scheduler"
_PASS: Key = ("", "pass")


class Scheduler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, Key] = {}  # pods to be placed, by UID, in the order in which they came
        self._snapshot: Snapshot | None = None  # made when the first pod waits
        context.on_change(PODS, self._pod_changed)
        context.on_change(NODES, self._node_changed)
        context.on_change(NAMESPACES, self._namespace_changed)
        context.on_change(CLAIMS, lambda change: self._storage_changed(change, PersistentVolumeClaim))
        context.on_change(VOLUMES, lambda change: self._storage_changed(change, PersistentVolume))

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
                self._engine.follow(self._snapshot, convert(after, Node))
        if self._waiting:
            self._pass()

    def _namespace_changed(self, change: Change) -> None:
        if self._snapshot is not None and change.type != "DELETED":
            self._engine.follow(self._snapshot, convert(change.object, Namespace))

    def _storage_changed(self, change: Change, form: type[PersistentVolumeClaim | PersistentVolume]) -> None:
        if self._snapshot is not None:
            self._engine.follow(self._snapshot, convert(change.object, form), gone=change.type == "DELETED")
        if self._waiting:
            self._pass()

    def _pass(self) -> None:
        self._context.work.add(self.reconcile, _PASS)

    def _seen(self) -> Snapshot:
        if self._snapshot is None:
            made: Snapshot = self._engine.snapshot_of(self._context.storage)
            self._snapshot = made
        return self._snapshot

    @property
    def _engine(self) -> Any:
        """Loaded when the first pod waits: numpy would be a good part of the time in which a cluster starts."""
        return importlib.import_module("plimsoll.embedded_cluster.controllers.node_selection")

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
        for pod, refusal in list(self._engine.place_all(self._seen(), self._context, waiting)):
            self._refuse(pod, refusal, self._make_room(pod))

    def _make_room(self, pod: Json) -> str:
        """The node on which less important pods now leave for this one."""
        if at(pod, "spec", "priority", default=0) <= self._least_priority():
            return ""
        node: str = importlib.import_module("plimsoll.embedded_cluster.controllers.preemption").preempt(
            self._seen(), self._context, pod
        )
        return node

    def _least_priority(self) -> int:
        """Nobody is less important than this; to look at the few classes is cheaper than at all pods."""
        classes = self._context.storage.collection(PRIORITY_CLASSES).all()
        return min(0, min((one.get("value", 0) for one in classes), default=0))

    def _refuse(self, pod: Json, message: str, node: str) -> None:
        before = condition(pod, "PodScheduled")
        if before is not None and before.get("message") == message and not node:
            return
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {**pod["status"], "conditions": conditions_with(pod, refused, self._context.stamp())}
        if node:
            status["nominatedNodeName"] = node
        self._context.put_status(PODS, pod, status)
        self._context.tell(PODS, pod, "FailedScheduling", message, source=_NAME, warning=True)
