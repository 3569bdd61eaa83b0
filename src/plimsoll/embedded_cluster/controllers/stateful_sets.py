"""The StatefulSet controller: ordered or parallel pods, and updates from the highest ordinal down."""

from __future__ import annotations

import re

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
from plimsoll.embedded_cluster.api.kinds import CLAIMS, PODS, REVISIONS, STATEFULSETS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.deployments import template_hash
from plimsoll.embedded_cluster.controllers.pods import (
    from_template,
    owner_reference,
    pod_is_active,
    pod_is_available,
    pod_is_finished,
    pod_is_ready,
)

REVISION = "controller-revision-hash"
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


class StatefulSetController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(STATEFULSETS, lambda change: context.queue.add(self.reconcile, object_key(change.object)))
        context.on_change(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == STATEFULSETS.kind:
            self._context.queue.add(self.reconcile, (namespace_of(change.object), owner["name"]))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        stateful_set = context.storage.get(STATEFULSETS, *key)
        if stateful_set is None or terminating(stateful_set):
            return
        revision = await self._revision(stateful_set)
        pods = {ordinal_of(pod): pod for pod in context.storage.owned_by(PODS, uid_of(stateful_set))}
        current = at(stateful_set, "status", "currentRevision", default=revision)
        if await self._grow_and_shrink(stateful_set, pods, revision, current):
            self._update(stateful_set, pods, revision)
        self._report(key, revision)

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _grow_and_shrink(self, stateful_set: Json, pods: dict[int, Json], revision: str, current: str) -> bool:
        """Create missing and delete surplus pods; returns whether all pods are ready, which updates require."""
        context, spec = self._context, stateful_set["spec"]
        first = at(spec, "ordinals", "start", default=0)
        wanted = range(first, first + spec.get("replicas", 1))
        in_order = spec.get("podManagementPolicy") != "Parallel"
        partition = at(spec, "updateStrategy", "rollingUpdate", "partition", default=0)
        complete = True
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and pod_is_finished(pod):
                context.delete(PODS, pod)
                pod = context.storage.get(PODS, *object_key(pod))
            if pod is None:
                made_from = revision if ordinal >= first + partition or revision == current else current
                await self._create(stateful_set, ordinal, made_from)
                complete = False
            elif not pod_is_ready(pod) or terminating(pod):
                complete = False
            if not complete and in_order:
                return False
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            if not terminating(pods[ordinal]):
                context.delete(PODS, pods[ordinal])
            if in_order:
                return False
        return complete and not surplus

    async def _create(self, stateful_set: Json, ordinal: int, revision: str) -> None:
        context = self._context
        name = f"{name_of(stateful_set)}-{ordinal}"
        template = self._template(stateful_set, revision)
        labels = {
            **at(template, "metadata", "labels", default={}),
            REVISION: revision,
            POD_NAME: name,
            POD_INDEX: str(ordinal),
        }
        pod = from_template(STATEFULSETS, stateful_set, template, name=name)
        pod["metadata"]["labels"] = labels
        pod["spec"] = {**pod["spec"], "hostname": name}
        if stateful_set["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = stateful_set["spec"]["serviceName"]
        await self._give_claims(stateful_set, pod)
        if await context.create(PODS, namespace_of(stateful_set), pod) is None:
            context.requeue_with_backoff(self.reconcile, object_key(stateful_set))

    async def _give_claims(self, stateful_set: Json, pod: Json) -> None:
        volumes = list(pod["spec"].get("volumes") or ())
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
            name = f"{at(template, 'metadata', 'name')}-{pod['metadata']['name']}"
            volumes = [one for one in volumes if one.get("name") != at(template, "metadata", "name")]
            volumes.append({"name": at(template, "metadata", "name"), "persistentVolumeClaim": {"claimName": name}})
            if self._context.storage.get(CLAIMS, namespace_of(stateful_set), name) is None:
                claim = {"metadata": {**template.get("metadata", {}), "name": name}, "spec": template.get("spec") or {}}
                await self._context.create(CLAIMS, namespace_of(stateful_set), claim)
        if volumes:
            pod["spec"]["volumes"] = volumes

    # ── updates ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _update(self, stateful_set: Json, pods: dict[int, Json], revision: str) -> None:
        spec = stateful_set["spec"]
        if at(spec, "updateStrategy", "type") == "OnDelete":
            return
        lowest = at(spec, "ordinals", "start", default=0) + at(
            spec, "updateStrategy", "rollingUpdate", "partition", default=0
        )
        for ordinal in sorted(pods, reverse=True):
            if ordinal < lowest:
                return
            pod = pods[ordinal]
            if object_labels(pod).get(REVISION) != revision:
                self._context.delete(PODS, pod)
                return
            if not pod_is_ready(pod):
                return

    async def _revision(self, stateful_set: Json) -> str:
        """The name of the current template's ControllerRevision, which is created if it is new."""
        name = f"{name_of(stateful_set)}-{template_hash(stateful_set['spec']['template'])}"
        storage = self._context.storage
        if storage.get(REVISIONS, namespace_of(stateful_set), name) is None:
            number = 1 + max(
                (one.get("revision", 0) for one in storage.owned_by(REVISIONS, uid_of(stateful_set))), default=0
            )
            body = {
                "metadata": {"name": name, "ownerReferences": [owner_reference(STATEFULSETS, stateful_set)]},
                "data": {"spec": {"template": stateful_set["spec"]["template"]}},
                "revision": number,
            }
            await self._context.create(REVISIONS, namespace_of(stateful_set), body)
        return name

    def _template(self, stateful_set: Json, revision: str) -> Json:
        found = self._context.storage.get(REVISIONS, namespace_of(stateful_set), revision)
        template: Json = at(found or {}, "data", "spec", "template", default=stateful_set["spec"]["template"])
        return template

    # ── status ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _report(self, key: Key, revision: str) -> None:
        context = self._context
        stateful_set = context.storage.get(STATEFULSETS, *key)
        if stateful_set is None:
            return
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(stateful_set)) if not pod_is_finished(pod)]
        now, wait = context.now(), at(stateful_set, "spec", "minReadySeconds", default=0)
        before = at(stateful_set, "status", default={})
        current = before.get("currentRevision", revision)
        updated = sum(1 for pod in pods if object_labels(pod).get(REVISION) == revision and pod_is_active(pod))
        if updated == len(pods) == at(stateful_set, "spec", "replicas", default=1) and all(map(pod_is_ready, pods)):
            current = revision
        counts = {
            "readyReplicas": sum(1 for pod in pods if pod_is_ready(pod) and pod_is_active(pod)),
            "currentReplicas": sum(
                1 for pod in pods if object_labels(pod).get(REVISION) == current and pod_is_active(pod)
            ),
            "updatedReplicas": updated,
        }
        status: Json = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "replicas": len(pods),
            "availableReplicas": sum(1 for pod in pods if pod_is_active(pod) and pod_is_available(pod, wait, now)),
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
            **{field: count for field, count in counts.items() if count},
        }
        context.put_status(STATEFULSETS, stateful_set, status)


def ordinal_of(pod: Json) -> int:
    found = re.search(r"-(\d+)$", name_of(pod))
    return int(found[1]) if found else -1
