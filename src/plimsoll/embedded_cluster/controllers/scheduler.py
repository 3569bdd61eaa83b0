"""The scheduler: tracks pending pods and when to retry them. `node_selection` finds the node."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    condition,
    name_of,
    set_condition,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import CLAIMS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, VOLUMES
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.pods import pod_is_finished
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Namespace, Node, Pod
from plimsoll.kube.types.storage import PersistentVolume, PersistentVolumeClaim

if TYPE_CHECKING:
    from plimsoll.scheduling.snapshot import Snapshot

_NAME = "default-scheduler"
_PASS: Key = ("", "pass")


class Scheduler:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._waiting: dict[str, Key] = {}  # pending pods by UID, in order of arrival
        self._snapshot: Snapshot | None = None  # built for the first pending pod
        context.on_change(PODS, self._pod_changed)
        context.on_change(NODES, self._node_changed)
        context.on_change(NAMESPACES, self._namespace_changed)
        context.on_change(CLAIMS, lambda change: self._storage_changed(change, PersistentVolumeClaim))
        context.on_change(VOLUMES, lambda change: self._storage_changed(change, PersistentVolume))

    # ── cluster changes ────────────────────────────────────────────────────────────────────────────────────────

    def _pod_changed(self, change: ObjectChange) -> None:
        pod, before = change.object, change.before
        uid = uid_of(pod)
        gone = change.type == "DELETED" or pod_is_finished(pod)
        node = "" if gone else pod["spec"].get("nodeName", "")
        was = before["spec"].get("nodeName", "") if before is not None and not pod_is_finished(before) else ""
        if node != was or (was and gone):
            if self._snapshot is not None:
                self._snapshot.remove(uid)
                if node:
                    self._snapshot.add(convert(pod, Pod), node)
            if was and self._waiting:
                self._pass()  # resources were freed
        if gone or node or terminating(pod) or pod["spec"].get("schedulerName", _NAME) != _NAME:
            self._waiting.pop(uid, None)
        elif uid not in self._waiting or before is None or before["spec"] != pod["spec"]:
            self._waiting[uid] = object_key(pod)
            self._pass()

    def _node_changed(self, change: ObjectChange) -> None:
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

    def _namespace_changed(self, change: ObjectChange) -> None:
        if self._snapshot is not None and change.type != "DELETED":
            self._engine.follow(self._snapshot, convert(change.object, Namespace))

    def _storage_changed(self, change: ObjectChange, form: type[PersistentVolumeClaim | PersistentVolume]) -> None:
        if self._snapshot is not None:
            self._engine.follow(self._snapshot, convert(change.object, form), gone=change.type == "DELETED")
        if self._waiting:
            self._pass()

    def _pass(self) -> None:
        self._context.queue.add(self.reconcile, _PASS)

    def _seen(self) -> Snapshot:
        if self._snapshot is None:
            made: Snapshot = self._engine.snapshot_of(self._context.storage)
            self._snapshot = made
        return self._snapshot

    @property
    def _engine(self) -> Any:
        """Imported for the first pending pod: numpy would dominate the start time of a cluster."""
        return importlib.import_module("plimsoll.embedded_cluster.controllers.node_selection")

    # ── scheduling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def reconcile(self, key: Key) -> None:
        """One pass over the pending pods, highest priority first, then in order of arrival."""
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
        """Preempt for the pod; returns the nominated node or nothing."""
        if at(pod, "spec", "priority", default=0) <= self._lowest_priority():
            return ""
        node: str = importlib.import_module("plimsoll.embedded_cluster.controllers.preemption").preempt(
            self._seen(), self._context, pod
        )
        return node

    def _lowest_priority(self) -> int:
        """The lowest priority that any pod can have; cheaper from the PriorityClasses than from all pods."""
        classes = self._context.storage.collection(PRIORITY_CLASSES).all()
        return min(0, min((one.get("value", 0) for one in classes), default=0))

    def _refuse(self, pod: Json, message: str, node: str) -> None:
        before = condition(pod, "PodScheduled")
        if before is not None and before.get("message") == message and not node:
            return
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {**pod["status"], "conditions": set_condition(pod, refused, self._context.timestamp())}
        if node:
            status["nominatedNodeName"] = node
        self._context.put_status(PODS, pod, status)
        self._context.record_event(PODS, pod, "FailedScheduling", message, source=_NAME, warning=True)
