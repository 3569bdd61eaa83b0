"""The ReplicaSet controller: creates missing pods and deletes surplus ones in the ranked order."""

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
from plimsoll.embedded_cluster.api.kinds import PODS, REPLICASETS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.pods import (
    from_template,
    pod_is_active,
    pod_is_available,
    pod_is_finished,
    pod_is_ready,
)
from plimsoll.embedded_cluster.controllers.replica_ranking import rank_for_deletion

# Burst limit per reconcile.
_MOST_AT_ONCE = 500


class ReplicaSetController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(REPLICASETS, lambda change: context.queue.add(self.reconcile, object_key(change.object)))
        context.on_change(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == REPLICASETS.kind:
            self._context.queue.add(self.reconcile, (namespace_of(change.object), owner["name"]))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        replica_set = context.storage.get(REPLICASETS, *key)
        if replica_set is None:
            return
        wanted = at(replica_set, "spec", "replicas", default=1)
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(replica_set)) if pod_is_active(pod)]
        if not terminating(replica_set):
            if len(pods) < wanted:
                await self._create(replica_set, min(wanted - len(pods), _MOST_AT_ONCE), key)
            elif len(pods) > wanted:
                for pod in self._to_delete(replica_set, pods, len(pods) - wanted):
                    context.delete(PODS, pod)
        self._report(key)

    async def _create(self, replica_set: Json, count: int, key: Key) -> None:
        context = self._context
        template = at(replica_set, "spec", "template", default={})
        batch = 1
        while count > 0:
            refused = 0
            for _ in range(min(batch, count)):
                pod = from_template(REPLICASETS, replica_set, template, generateName=f"{name_of(replica_set)}-")
                refused += await context.create(PODS, namespace_of(replica_set), pod) is None
                current = context.storage.get(REPLICASETS, *key)
                if current is None or current.get("spec") is not replica_set.get("spec"):
                    return  # changed during a webhook call: that change has requeued the key
            if refused:
                context.requeue_with_backoff(self.reconcile, key)
                return
            # Slow start (1, 2, 4, …): if the server refuses, it does not receive hundreds of requests.
            count -= batch
            batch *= 2

    def _to_delete(self, replica_set: Json, pods: list[Json], count: int) -> list[Json]:
        if count >= len(pods):
            return pods
        owner = controller_of(replica_set)
        related = list(pods)
        if owner is not None:
            siblings = self._context.storage.owned_by(REPLICASETS, owner["uid"])
            related = [pod for one in siblings for pod in self._context.storage.owned_by(PODS, uid_of(one))]
        return rank_for_deletion(pods, related, self._context.now())[:count]

    def _report(self, key: Key) -> None:
        context = self._context
        replica_set = context.storage.get(REPLICASETS, *key)
        if replica_set is None:
            return
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(replica_set)) if pod_is_active(pod)]
        wait = at(replica_set, "spec", "minReadySeconds", default=0)
        now = context.now()
        are_ready = [pod for pod in pods if pod_is_ready(pod)]
        are_available = sum(1 for pod in are_ready if pod_is_available(pod, wait, now))
        labels = at(replica_set, "spec", "template", "metadata", "labels", default={}).items()
        leaving = sum(
            1
            for pod in context.storage.owned_by(PODS, uid_of(replica_set))
            if terminating(pod) and not pod_is_finished(pod)
        )
        status: Json = {"replicas": len(pods), "observedGeneration": replica_set["metadata"]["generation"]}
        counts = {
            "fullyLabeledReplicas": sum(1 for pod in pods if labels <= object_labels(pod).items()),
            "readyReplicas": len(are_ready),
            "availableReplicas": are_available,
        }
        status |= {field: count for field, count in counts.items() if count}
        status["terminatingReplicas"] = leaving
        context.put_status(REPLICASETS, replica_set, status)
        if wait and are_available < len(are_ready):
            context.requeue_after(self.reconcile, key, float(wait))
