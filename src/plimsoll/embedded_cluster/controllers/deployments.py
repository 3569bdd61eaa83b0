"""The Deployment controller: one ReplicaSet per template, and rollouts from old to new."""

from __future__ import annotations

import hashlib

import msgspec

from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    condition,
    controller_of,
    name_of,
    namespace_of,
    object_labels,
    set_condition,
    terminating,
    uid_of,
    with_value,
    without_fields,
)
from plimsoll.embedded_cluster.api.kinds import DEPLOYMENTS, PODS, REPLICASETS
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key, object_key
from plimsoll.embedded_cluster.controllers.pods import owner_reference
from plimsoll.embedded_cluster.controllers.rollout import Scaling, rolled_on, scaled_in_proportion

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED, MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
_SOURCE = "deployment-controller"
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MOST)
_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Json) -> str:
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest[:10])


class DeploymentController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(DEPLOYMENTS, lambda change: context.queue.add(self.reconcile, object_key(change.object)))
        context.on_change(REPLICASETS, self._replica_set_changed)
        context.on_change(PODS, self._pod_changed)

    def _replica_set_changed(self, change: ObjectChange) -> None:
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == DEPLOYMENTS.kind:
            self._context.queue.add(self.reconcile, (namespace_of(change.object), owner["name"]))

    def _pod_changed(self, change: ObjectChange) -> None:
        """Recreate waits until the last old pod is gone, which no ReplicaSet status shows."""
        if change.type != "DELETED":
            return
        owner = controller_of(change.object)
        if owner is not None and owner["kind"] == REPLICASETS.kind:
            replica_set = self._context.storage.get(REPLICASETS, namespace_of(change.object), owner["name"])
            above = controller_of(replica_set) if replica_set is not None else None
            if above is not None and above["kind"] == DEPLOYMENTS.kind:
                self._context.queue.add(self.reconcile, (namespace_of(change.object), above["name"]))

    async def reconcile(self, key: Key) -> None:
        context = self._context
        deployment = context.storage.get(DEPLOYMENTS, *key)
        if deployment is None or terminating(deployment):
            return
        owned = [one for one in context.storage.owned_by(REPLICASETS, uid_of(deployment)) if not terminating(one)]
        owned.sort(key=lambda one: (one["metadata"]["creationTimestamp"], int(annotations_of(one).get(REVISION, "0"))))
        current = self._current(deployment, owned)
        paused = bool(at(deployment, "spec", "paused", default=False))
        if current is None and not paused and not self._must_wait(deployment, owned):
            current = await self._create(deployment, owned)
            if current is None:
                context.requeue_with_backoff(self.reconcile, key)
                return
            owned = [*owned, current]
        elif current is not None:
            current = self._adopted_revision(deployment, current, owned)
            owned = [current if uid_of(one) == uid_of(current) else one for one in owned]
        for replica_set, replicas in self._steps(deployment, owned, current, paused=paused):
            self._scale(deployment, replica_set, replicas)
        self._forget_old(deployment, current)
        self._report(key)

    # ── the ReplicaSet of the current template ───────────────────────────────────────────────────────────────────────

    @staticmethod
    def _current(deployment: Json, owned: list[Json]) -> Json | None:
        wanted = deployment["spec"]["template"]
        return next((one for one in owned if _template(one) == _template(deployment) or _template(one) == wanted), None)

    def _must_wait(self, deployment: Json, owned: list[Json]) -> bool:
        """Scale old ReplicaSets down first (strategy Recreate); whether their pods still exist."""
        if at(deployment, "spec", "strategy", "type") != "Recreate":
            return False
        waiting = False
        for one in owned:
            if at(one, "spec", "replicas", default=0):
                self._scale(deployment, one, 0)
            waiting |= bool(self._context.storage.owned_by(PODS, uid_of(one)))
        return waiting

    async def _create(self, deployment: Json, owned: list[Json]) -> Json | None:
        context, spec = self._context, deployment["spec"]
        mark = template_hash(spec["template"])
        labels = {**object_labels({"metadata": {}, **spec["template"]}), HASH: mark}
        template = with_value(spec["template"], ("metadata", "labels"), labels)
        selector = with_value(spec["selector"], ("matchLabels", HASH), mark)
        scaling = Scaling.of(deployment, owned, None)
        body = {
            "metadata": {
                "name": f"{name_of(deployment)}-{mark}",
                "labels": labels,
                "annotations": self._annotations(deployment, _next_revision(owned)),
                "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": scaling.first_size(),
                "selector": selector,
                "template": template,
                **{field: spec[field] for field in ("minReadySeconds",) if field in spec},
            },
        }
        made = await context.create(REPLICASETS, namespace_of(deployment), body)
        if made is not None:
            self._tell_scaled(deployment, made, 0, scaling.first_size())
            self._mark_revision(deployment, annotations_of(made)[REVISION])
        return made

    def _adopted_revision(self, deployment: Json, current: Json, owned: list[Json]) -> Json:
        """Give a ReplicaSet that is current again after a rollback the next revision."""
        newest = max(owned, key=lambda one: int(annotations_of(one).get(REVISION, "0")))
        revision = annotations_of(current).get(REVISION, "0")
        if uid_of(newest) != uid_of(current):
            revision = _next_revision(owned)
        wanted = {**annotations_of(current), **self._annotations(deployment, revision)}
        if wanted != annotations_of(current):
            current = self._context.storage.put(REPLICASETS, with_value(current, ("metadata", "annotations"), wanted))
        self._mark_revision(deployment, revision)
        return current

    @staticmethod
    def _annotations(deployment: Json, revision: str) -> dict[str, str]:
        scaling = Scaling.of(deployment, [], None)
        copied = {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}
        return {**copied, REVISION: revision, DESIRED: str(scaling.wanted), MOST: str(scaling.wanted + scaling.surge)}

    def _mark_revision(self, deployment: Json, revision: str) -> None:
        current = self._context.storage.get(DEPLOYMENTS, *object_key(deployment))
        if current is not None and annotations_of(current).get(REVISION) != revision:
            marked = {**annotations_of(current), REVISION: revision}
            self._context.storage.put(DEPLOYMENTS, with_value(current, ("metadata", "annotations"), marked))

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _steps(
        self, deployment: Json, owned: list[Json], current: Json | None, *, paused: bool
    ) -> list[tuple[Json, int]]:
        scaling = Scaling.of(deployment, owned, current)
        running = [one for one in owned if at(one, "spec", "replicas", default=0)]
        wanted = str(scaling.wanted)
        if paused or any(annotations_of(one).get(DESIRED, wanted) != wanted for one in running):
            return scaled_in_proportion(scaling, {uid_of(one): _most(one) for one in owned})
        if current is None:
            return []
        if at(deployment, "spec", "strategy", "type") == "Recreate":
            return [(current, scaling.wanted)]
        return rolled_on(scaling)

    def _scale(self, deployment: Json, replica_set: Json, replicas: int) -> None:
        storage = self._context.storage
        live = storage.get(REPLICASETS, *object_key(replica_set))
        if live is None:
            return
        before = at(live, "spec", "replicas", default=0)
        scaling = Scaling.of(deployment, [], None)
        marks = {DESIRED: str(scaling.wanted), MOST: str(scaling.wanted + scaling.surge)}
        annotations = {**annotations_of(live), **marks}
        if before == replicas and annotations == annotations_of(live):
            return
        metadata = {**live["metadata"], "annotations": annotations}
        if before != replicas:
            metadata["generation"] = metadata.get("generation", 0) + 1
        storage.put(REPLICASETS, {**live, "metadata": metadata, "spec": {**live["spec"], "replicas": replicas}})
        self._tell_scaled(deployment, live, before, replicas)

    def _tell_scaled(self, deployment: Json, replica_set: Json, before: int, after: int) -> None:
        if before == after:
            return
        way = "up" if after > before else "down"
        message = f"Scaled {way} replica set {name_of(replica_set)} from {before} to {after}"
        self._context.record_event(DEPLOYMENTS, deployment, "ScalingReplicaSet", message, source=_SOURCE)

    def _forget_old(self, deployment: Json, current: Json | None) -> None:
        limit = at(deployment, "spec", "revisionHistoryLimit", default=10)
        mine = self._context.storage.owned_by(REPLICASETS, uid_of(deployment))
        empty = [
            one
            for one in mine
            if (current is None or uid_of(one) != uid_of(current))
            and not at(one, "spec", "replicas", default=0)
            and not at(one, "status", "replicas", default=0)
        ]
        empty.sort(key=lambda one: int(annotations_of(one).get(REVISION, "0")))
        for one in empty[: max(0, len(empty) - limit)]:
            self._context.delete(REPLICASETS, one)

    # ── status ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _report(self, key: Key) -> None:
        context = self._context
        deployment = context.storage.get(DEPLOYMENTS, *key)
        if deployment is None:
            return
        owned = [one for one in context.storage.owned_by(REPLICASETS, uid_of(deployment)) if not terminating(one)]
        current = self._current(deployment, owned)
        scaling = Scaling.of(deployment, owned, current)

        def total(field: str) -> int:
            return sum(at(one, "status", field, default=0) for one in owned)

        replicas, free = total("replicas"), total("availableReplicas")
        updated = at(current, "status", "replicas", default=0) if current is not None else 0
        counts = {
            "replicas": replicas,
            "updatedReplicas": updated,
            "readyReplicas": total("readyReplicas"),
            "availableReplicas": free,
            "unavailableReplicas": max(0, sum(at(one, "spec", "replicas", default=0) for one in owned) - free),
        }
        status: Json = {"observedGeneration": deployment["metadata"]["generation"]}
        status |= {field: count for field, count in counts.items() if count}
        status["terminatingReplicas"] = total("terminatingReplicas")
        now = context.timestamp()
        enough = free >= scaling.wanted - scaling.unavailable
        words = "has minimum availability." if enough else "does not have minimum availability."
        complete = updated == scaling.wanted == replicas and free >= scaling.wanted
        name = name_of(current) if current is not None else ""
        known = {
            "Available": (
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                f"Deployment {words}",
                enough,
            ),
            "Progressing": (
                "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
                f'ReplicaSet "{name}" {"has successfully progressed" if complete else "is progressing"}.',
                True,
            ),
        }
        shown = {**deployment, "status": {**status, "conditions": at(deployment, "status", "conditions", default=[])}}
        for kind, (reason, message, holds) in known.items():
            changed = {"type": kind, "status": str(holds), "reason": reason, "message": message}
            before = condition(shown, kind)
            same = before is not None and (before["status"], before["reason"]) == (changed["status"], reason)
            # A Deployment from a snapshot may have conditions without this field.
            changed["lastUpdateTime"] = before.get("lastUpdateTime", now) if before is not None and same else now
            shown = {**shown, "status": {**status, "conditions": set_condition(shown, changed, now)}}
        context.put_status(DEPLOYMENTS, deployment, shown["status"])


def _template(obj: Json) -> Json:
    """The template without the pod-template-hash label."""
    template: Json = obj["spec"]["template"]
    labels = without_fields(dict(at(template, "metadata", "labels", default={})), HASH)
    return with_value(template, ("metadata", "labels"), labels)


def _next_revision(owned: list[Json]) -> str:
    return str(1 + max((int(annotations_of(one).get(REVISION, "0")) for one in owned), default=0))


def _most(replica_set: Json) -> int:
    return int(annotations_of(replica_set).get(MOST, "0"))
