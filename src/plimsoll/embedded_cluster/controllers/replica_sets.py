"""ReplicaSets: as many pods as are asked for, and the right ones to go."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    at,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.kinds import PODS, REPLICASETS
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.controllers.context import Context, Key, key_of
from plimsoll.embedded_cluster.controllers.pods import active, available, finished, from_template, ready
from plimsoll.embedded_cluster.controllers.replica_ranking import deletion_order

# Created in one go before others get their turn.
_MOST_AT_ONCE = 500


class ReplicaSetController:
    def __init__(self, context: Context) -> None:
        self._context = context
        context.on_change(REPLICASETS, lambda change: context.work.add(self.reconcile, key_of(change.object)))
        context.on_change(PODS, self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == REPLICASETS.kind:
            self._context.work.add(self.reconcile, (namespace_of(change.object), owner["name"]))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        replica_set = context.storage.get(REPLICASETS, *key)
        if replica_set is None:
            return
        wanted = at(replica_set, "spec", "replicas", default=1)
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(replica_set)) if active(pod)]
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
                    return  # changed while a webhook was asked: its change has queued the key again
            if refused:
                context.retry(self.reconcile, key)
                return
            # One, then two, then four: where the server refuses all, it is not asked five hundred times to say so.
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
        return deletion_order(pods, related, self._context.now())[:count]

    def _report(self, key: Key) -> None:
        context = self._context
        replica_set = context.storage.get(REPLICASETS, *key)
        if replica_set is None:
            return
        pods = [pod for pod in context.storage.owned_by(PODS, uid_of(replica_set)) if active(pod)]
        wait = at(replica_set, "spec", "minReadySeconds", default=0)
        now = context.now()
        are_ready = [pod for pod in pods if ready(pod)]
        are_available = sum(1 for pod in are_ready if available(pod, wait, now))
        labels = at(replica_set, "spec", "template", "metadata", "labels", default={}).items()
        leaving = sum(
            1 for pod in context.storage.owned_by(PODS, uid_of(replica_set)) if terminating(pod) and not finished(pod)
        )
        status: Json = {"replicas": len(pods), "observedGeneration": replica_set["metadata"]["generation"]}
        counts = {
            "fullyLabeledReplicas": sum(1 for pod in pods if labels <= labels_of(pod).items()),
            "readyReplicas": len(are_ready),
            "availableReplicas": are_available,
        }
        status |= {field: count for field, count in counts.items() if count}
        status["terminatingReplicas"] = leaving
        context.put_status(REPLICASETS, replica_set, status)
        if wait and are_available < len(are_ready):
            context.again(self.reconcile, key, float(wait))
