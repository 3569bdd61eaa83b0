"""The DaemonSet controller: one pod for every eligible node, bound by the scheduler through node affinity."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    controller_of,
    name_of,
    namespace_of,
    object_labels,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import DAEMONSETS, NODES, PODS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.deployments import template_hash
from plimsoll.embedded_cluster.controllers.pods import (
    from_template,
    pod_is_active,
    pod_is_available,
    pod_is_finished,
    pod_is_ready,
)
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node, PodSpec
from plimsoll.scheduling.rules import node_selector_matches, required_affinity_matches, untolerated

_REVISION = "controller-revision-hash"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(DAEMONSETS, lambda change: context.queue.add(self.reconcile, object_key(change.object)))
        context.on_change(PODS, self._pod_changed)
        context.on_change(NODES, self._node_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == DAEMONSETS.kind:
            self._context.queue.add(self.reconcile, (namespace_of(change.object), owner["name"]))

    def _node_changed(self, change: ObjectChange) -> None:
        same = change.before is not None and all(
            change.before.get(part) == change.object.get(part) for part in ("spec",)
        )
        if same and object_labels(change.before or {}) == object_labels(change.object) and change.type != "DELETED":
            return
        for daemon_set in self._context.storage.collection(DAEMONSETS).all():
            self._context.queue.add(self.reconcile, object_key(daemon_set))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        daemon_set = context.storage.get(DAEMONSETS, *key)
        if daemon_set is None or terminating(daemon_set):
            return
        revision = template_hash(daemon_set["spec"]["template"])
        template = self._template(daemon_set, revision)
        spec = convert(template["spec"], PodSpec)
        wanted = [name_of(node) for node in context.storage.collection(NODES).all() if _takes(node, spec)]
        by_node: dict[str, list[Json]] = {}
        for pod in context.storage.owned_by(PODS, uid_of(daemon_set)):
            if pod_is_finished(pod):
                context.delete(PODS, pod)
            else:
                by_node.setdefault(_target(pod), []).append(pod)
        for node in wanted:
            if node not in by_node:
                pod = from_template(DAEMONSETS, daemon_set, template, generateName=f"{name_of(daemon_set)}-")
                pod["spec"] = _bound_to(pod["spec"], node)
                if await context.create(PODS, namespace_of(daemon_set), pod) is None:
                    context.requeue_with_backoff(self.reconcile, key)
                    break
        for node, pods in by_node.items():
            for pod in pods if node not in wanted else pods[1:]:
                if not terminating(pod):
                    context.delete(PODS, pod)
        self._update(daemon_set, [pod for node in wanted for pod in by_node.get(node, ())[:1]], revision)
        self._report(key, wanted, revision)

    @staticmethod
    def _template(daemon_set: Json, revision: str) -> Json:
        template: Json = daemon_set["spec"]["template"]
        labels = {**at(template, "metadata", "labels", default={}), _REVISION: revision}
        added = [
            {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect} for name, effect in _TOLERATED
        ]
        spec = {**template["spec"], "tolerations": [*(template["spec"].get("tolerations") or ()), *added]}
        return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}, "spec": spec}

    def _update(self, daemon_set: Json, pods: list[Json], revision: str) -> None:
        if at(daemon_set, "spec", "updateStrategy", "type") == "OnDelete":
            return
        allowed = at(daemon_set, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable", default=1)
        allowed = allowed if isinstance(allowed, int) else 1
        allowed -= sum(1 for pod in pods if not pod_is_ready(pod) or terminating(pod))
        for pod in pods:
            if allowed > 0 and pod_is_active(pod) and object_labels(pod).get(_REVISION) != revision:
                self._context.delete(PODS, pod)
                allowed -= 1

    def _report(self, key: Key, wanted: list[str], revision: str) -> None:
        context = self._context
        daemon_set = context.storage.get(DAEMONSETS, *key)
        if daemon_set is None:
            return
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(daemon_set)) if pod_is_active(pod)]
        there = [pod for pod in pods if _target(pod) in wanted]
        free = sum(
            1
            for pod in there
            if pod_is_available(pod, at(daemon_set, "spec", "minReadySeconds", default=0), context.now())
        )
        status: Json = {
            "observedGeneration": daemon_set["metadata"]["generation"],
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len(there),
            "numberMisscheduled": len(pods) - len(there),
            "numberReady": sum(1 for pod in there if pod_is_ready(pod)),
        }
        more = {
            "updatedNumberScheduled": sum(1 for pod in there if object_labels(pod).get(_REVISION) == revision),
            "numberAvailable": free,
            "numberUnavailable": len(wanted) - free,
        }
        context.put_status(DAEMONSETS, daemon_set, status | {field: count for field, count in more.items() if count})


def _takes(node: Json, spec: PodSpec) -> bool:
    found = convert(node, Node)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return (
        node_selector_matches(spec.node_selector, found.labels)
        and required_affinity_matches(affinity.required if affinity else None, found.labels, found.name)
        and untolerated(spec.tolerations, found.spec.taints) is None
    )


def _bound_to(spec: Json, node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    bound = [{**term, "matchFields": [field]} for term in terms or [{}]]
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": bound},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _target(pod: Json) -> str:
    """The node of a daemon pod, bound or not."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    terms = at(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    return str(terms[0]["matchFields"][0]["values"][0]) if terms and terms[0].get("matchFields") else ""
