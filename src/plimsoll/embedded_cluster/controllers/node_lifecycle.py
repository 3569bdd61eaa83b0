"""The node lifecycle controller: condition taints, taint-based eviction, and pods of removed nodes."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, at, condition, name_of, terminating
from plimsoll.embedded_cluster.api.kinds import NODES, PODS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Taint, Toleration
from plimsoll.scheduling.rules import tolerates

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)
_SOURCE = "node-controller"


class NodeLifecycleController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._well: set[str] = set()
        self._unwell: dict[str, None] = {}  # nodes that are not ready or do not report
        context.on_change(NODES, self._node_changed)
        context.on_change(PODS, self._pod_changed)

    def _node_changed(self, change: ObjectChange) -> None:
        if change.before is not None and change.type != "DELETED":
            same = change.before.get("spec") == change.object.get("spec")
            if same and _readiness(change.before) == _readiness(change.object):
                return
        self._context.queue.add(self.reconcile, object_key(change.object))
        were_well = bool(self._well)
        self._note(name_of(change.object), None if change.type == "DELETED" else _readiness(change.object))
        if bool(self._well) is not were_well:
            for name in self._unwell:
                self._context.queue.add(self.reconcile, ("", name))

    def _note(self, name: str, readiness: str | None) -> None:
        self._well.discard(name)
        self._unwell.pop(name, None)
        if readiness == "True":
            self._well.add(name)
        elif readiness is not None:
            self._unwell[name] = None

    def _pod_changed(self, change: ObjectChange) -> None:
        """React to a pod bound to a missing node or to one with NoExecute taints."""
        node = change.object["spec"].get("nodeName")
        if node and change.type != "DELETED" and (change.before is None or not change.before["spec"].get("nodeName")):
            found = self._context.storage.node(node)
            if found is None or any(
                taint.get("effect") == "NoExecute" for taint in at(found, "spec", "taints", default=[])
            ):
                self._context.queue.add(self.reconcile, ("", node))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        node = context.storage.get(NODES, *key)
        if node is None:
            for pod in context.storage.pods_on(key[1]):
                context.delete(PODS, pod, gracePeriodSeconds=0)
            return
        wanted = self._taints(node)
        if wanted != at(node, "spec", "taints", default=[]):
            spec = {**(node.get("spec") or {}), "taints": wanted}
            if not wanted:
                del spec["taints"]
            node = context.storage.put(NODES, {**node, "spec": spec})
        taints = [convert(taint, Taint) for taint in wanted if taint["effect"] == "NoExecute"]
        if taints:
            for pod in context.storage.pods_on(name_of(node)):
                self._evict_by_taint(pod, taints, key)

    def _taints(self, node: Json) -> list[Json]:
        before: list[Json] = at(node, "spec", "taints", default=[])
        kept = [taint for taint in before if taint["key"] not in _OURS]
        wanted: list[tuple[str, str]] = []
        ready = _readiness(node)
        if ready != "True":
            key = UNREACHABLE if ready == "Unknown" else NOT_READY
            wanted = [(key, "NoSchedule")]
            # If no node is ready, the reporting is more likely at fault: no pods are evicted.
            if ready is not None and self._well:
                wanted.append((key, "NoExecute"))
        if at(node, "spec", "unschedulable", default=False):
            wanted.append((UNSCHEDULABLE, "NoSchedule"))
        known = {(taint["key"], taint["effect"]): taint for taint in before}
        fresh = self._context.timestamp()
        return kept + [known.get(one) or {"key": one[0], "effect": one[1], "timeAdded": fresh} for one in wanted]

    def _evict_by_taint(self, pod: Json, taints: list[Taint], key: Key) -> None:
        if terminating(pod):
            return
        tolerations = [convert(one, Toleration) for one in at(pod, "spec", "tolerations", default=[])]
        stays: list[float] = []
        for taint in taints:
            accepting = [one for one in tolerations if tolerates((one,), taint)]
            if not accepting:
                stays.append(0.0)
                continue
            limits = [one.toleration_seconds for one in accepting]
            if None not in limits:
                begun = taint.time_added or self._context.now()
                spent = (self._context.now() - begun).total_seconds()
                stays.append(max(0.0, min(limit for limit in limits if limit is not None) - spent))
        if not stays:
            return
        if min(stays) <= 0:
            self._context.delete(PODS, pod)
        else:
            self._context.requeue_after(self.reconcile, key, min(stays))


def _readiness(node: Json) -> str | None:
    found = condition(node, "Ready")
    return None if found is None else str(found.get("status"))
