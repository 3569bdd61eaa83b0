"""The kubelets of all nodes: they start and stop pods after a delay and report node status; tests can silence them.

Annotations control single pods and nodes, the same as on the tests' real control plane:

    controlplane.test/ready: "false"     pod or node: not ready until the annotation is changed or removed
    controlplane.test/ready-after: 5s    pod: delay from binding to running
    controlplane.test/gone-after: 5s     pod: delay from deletion to removal
"""

from __future__ import annotations

import re

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    condition,
    name_of,
    namespace_of,
    set_condition,
    terminating,
    uid_of,
    with_value,
)
from plimsoll.embedded_cluster.api.kinds import NODES, PODS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.embedded_cluster.controllers.context import ControllerContext, object_key

STEER = "controlplane.test/"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
)


class Kubelets:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._silent: set[str] = set()  # nodes whose kubelet does not report
        self._addresses = 0
        context.on_change(PODS, self._pod_changed)
        context.on_change(NODES, self._node_changed)

    def silence(self, node: str) -> None:
        """Stop a kubelet's reports; after `node_silent` seconds the node becomes Ready=Unknown."""
        self._silent.add(node)
        self._context.timers.call_later(self._context.times.node_silent, lambda: self._lost(node))

    def answers_for(self, node: str) -> bool:
        return node not in self._silent

    def revive(self, node: str) -> None:
        self._silent.discard(node)
        found = self._context.storage.node(node)
        if found is not None:
            self._report(found)
        for pod in self._context.storage.pods_on(node):
            self._look(pod)

    def _lost(self, node: str) -> None:
        found = self._context.storage.node(node)
        if found is None or node not in self._silent:
            return
        unknown = {
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }  # fmt: skip
        conditions = set_condition(found, unknown, self._context.timestamp())
        self._context.put_status(NODES, found, {**found["status"], "conditions": conditions})
        for pod in self._context.storage.pods_on(node):
            self._set_ready(pod, is_ready=False)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _node_changed(self, change: ObjectChange) -> None:
        node = change.object
        if change.type == "DELETED":
            self._silent.discard(name_of(node))
        elif condition(node, "Ready") is None:
            if change.type == "ADDED":
                self._context.timers.call_later(self._context.times.node_ready, lambda: self._report_again(node))
        elif change.before is not None and annotations_of(change.before) != annotations_of(node):
            self._report_again(node)

    def _report_again(self, node: Json) -> None:
        current = self._context.storage.get(NODES, *object_key(node))
        if current is not None and uid_of(current) == uid_of(node) and name_of(node) not in self._silent:
            self._report(current)

    def _report(self, node: Json) -> None:
        now = self._context.timestamp()
        well = annotations_of(node).get(f"{STEER}ready") != "false"
        said = ("KubeletReady", "kubelet is posting ready status") if well else ("KubeletNotReady", "held unready")
        status = dict(node.get("status") or {})
        shown: Json = {"metadata": {}, "status": status}
        for kind, state, reason, message in (
            *((kind, "False", reason, "") for kind, reason in _PRESSURES),
            ("Ready", str(well), *said),
        ):
            changed = {"type": kind, "status": state, "reason": reason, "message": message, "lastHeartbeatTime": now}
            shown = {**shown, "status": {**shown["status"], "conditions": set_condition(shown, changed, now)}}
        self._context.put_status(NODES, node, shown["status"])

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _pod_changed(self, change: ObjectChange) -> None:
        pod, before = change.object, change.before
        if change.type == "DELETED" or not pod["spec"].get("nodeName"):
            return
        # This also receives the kubelet's own status updates, which need no reaction.
        bound = before is None or not before["spec"].get("nodeName")
        leaves = terminating(pod) and (before is None or not _same_end(before, pod))
        steered = before is not None and annotations_of(before) != annotations_of(pod)
        if bound or leaves or steered:
            self._look(pod)

    def _look(self, pod: Json) -> None:
        if pod["spec"]["nodeName"] in self._silent:
            return
        if terminating(pod):
            self._record_for_containers(pod, "Killing", "Stopping container")
            left = (parse_timestamp(pod["metadata"]["deletionTimestamp"]) - self._context.now()).total_seconds()
            wanted = _duration(pod, "gone-after", self._context.times.pod_stop)
            self._context.timers.call_later(
                max(0.0, min(wanted, max(left, 0.0)) if left > 0 else wanted), lambda: self._stop(pod)
            )
        elif at(pod, "status", "phase") == "Pending":
            seconds = _duration(pod, "ready-after", self._context.times.pod_start)
            self._context.timers.call_later(seconds, lambda: self._start(pod))
        elif at(pod, "status", "phase") == "Running":
            self._set_ready(pod, is_ready=_wants_ready(pod))

    def _current(self, pod: Json) -> Json | None:
        current = self._context.storage.get(PODS, *object_key(pod))
        if current is None or uid_of(current) != uid_of(pod) or current["spec"]["nodeName"] in self._silent:
            return None
        return current

    def _stop(self, pod: Json) -> None:
        current = self._current(pod)
        if current is not None and terminating(current):
            self._context.objects.writer.delete(PODS, current, {"gracePeriodSeconds": 0})

    def _start(self, pod: Json) -> None:
        current = self._current(pod)
        if current is None or terminating(current) or at(current, "status", "phase") != "Pending":
            return
        self._addresses += 1
        now, is_ready = self._context.timestamp(), _wants_ready(current)
        number = self._addresses
        address = f"10.{128 + (number >> 16) % 128}.{(number >> 8) % 256}.{number % 256}"
        node = self._context.storage.node(current["spec"]["nodeName"]) or {}
        hosts = [one["address"] for one in at(node, "status", "addresses", default=[]) if one["type"] == "InternalIP"]
        status = {
            **current["status"],
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": [_running(one, now, is_ready=is_ready) for one in current["spec"]["containers"]],
        }
        if hosts:
            status |= {"hostIP": hosts[0], "hostIPs": [{"ip": hosts[0]}]}
        shown = {**current, "status": status}
        for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
            holds = is_ready if kind.endswith("Ready") else True
            changed = {"type": kind, "status": str(holds)}
            shown = with_value(shown, ("status", "conditions"), set_condition(shown, changed, now))
        started = self._context.storage.put(PODS, shown)
        self._record_for_containers(started, "Started", "Container started:")

    def _record_for_containers(self, pod: Json, reason: str, message: str) -> None:
        for container in pod["spec"].get("containers") or ():
            self._context.record_pod_event(pod, reason, f"{message} {container['name']}", source="kubelet")

    def _set_ready(self, pod: Json, *, is_ready: bool) -> None:
        current = self._context.storage.get(PODS, namespace_of(pod), name_of(pod))
        found = condition(current, "Ready") if current is not None else None
        if current is None or found is None or found["status"] == str(is_ready):
            return
        now, shown = self._context.timestamp(), current
        for kind in ("ContainersReady", "Ready"):
            changed = {"type": kind, "status": str(is_ready)}
            shown = with_value(shown, ("status", "conditions"), set_condition(shown, changed, now))
        statuses = [{**one, "ready": is_ready} for one in at(shown, "status", "containerStatuses", default=[])]
        self._context.storage.put(PODS, with_value(shown, ("status", "containerStatuses"), statuses))


def _running(container: Json, now: str, *, is_ready: bool) -> Json:
    return {
        "name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": 0, "ready": is_ready,
        "started": True, "state": {"running": {"startedAt": now}}, "lastState": {},
    }  # fmt: skip


def _wants_ready(pod: Json) -> bool:
    return annotations_of(pod).get(f"{STEER}ready") != "false"


def _duration(pod: Json, name: str, otherwise: float) -> float:
    found = _DURATION.fullmatch(annotations_of(pod).get(STEER + name, ""))
    return float(found[1]) * _UNITS[found[2]] if found else otherwise


def _same_end(before: Json, after: Json) -> bool:
    return bool(before["metadata"].get("deletionTimestamp") == after["metadata"].get("deletionTimestamp"))
