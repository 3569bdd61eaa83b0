"""Objects that were read live for an admission, until the view shows the same or newer versions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger
from plimsoll.controllers.placement.annotations import TOKEN
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.replica_counts import count, replicas
from plimsoll.kube.cache.store import View, is_older
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import PODS

Owner = ReplicaSet | Deployment | StatefulSet
# As long as an entry of the ledger; a view that has not caught up by then reports itself as not live.
KEPT_SECONDS = 60.0


class _ReadOwner(Struct, frozen=True):
    owner: Owner
    at_seconds: float


class _ReadPods(Struct, frozen=True):
    spot: int
    on_demand: int
    resource_version: str
    at_seconds: float


class LiveObjects:
    def __init__(self) -> None:
        self._owners: dict[str, _ReadOwner] = {}
        self._pods: dict[str, _ReadPods] = {}

    def record_owner(self, owner: Owner, at_seconds: float) -> None:
        self._owners[owner.uid] = _ReadOwner(owner, at_seconds)

    def record_pods(
        self,
        replica_set_uid: str,
        pods: Iterable[Pod],
        resource_version: str,
        at_seconds: float,
        *,
        view: View,
        rules: ClassRules,
        ledger: AdmissionLedger,
    ) -> None:
        """All pods of a ReplicaSet as of `resource_version`. Pods with an entry in the ledger count as arrived."""
        own = [pod for pod in pods if (owner := pod.metadata.controller) is not None and owner.uid == replica_set_uid]
        for pod in own:
            if (token := pod.annotations.get(TOKEN)) is not None:
                ledger.arrived(token)
        counts = count(replicas(own, view, rules))
        self._pods[replica_set_uid] = _ReadPods(counts.spot, counts.on_demand, resource_version, at_seconds)

    def owner(self, uid: str, in_view: KubeObject | None) -> KubeObject | None:
        """The newer of the live object and the view's."""
        read = self._owners.get(uid)
        if read is None:
            return in_view
        held, offered = read.owner, in_view.metadata.resource_version if in_view is not None else ""
        if in_view is not None and not is_older(offered, held.metadata.resource_version):
            del self._owners[uid]
            return in_view
        return held

    def pods(self, namespace: str, replica_set_uid: str, view: View) -> tuple[int, int] | None:
        """Spot and on-demand pods as read live; None if nothing was read or the view is as new.

        Watch events are ordered: a view beyond the version of the list has seen everything in the list.
        """
        read = self._pods.get(replica_set_uid)
        if read is None:
            return None
        if not is_older(view[PODS].version_at(namespace), read.resource_version):
            del self._pods[replica_set_uid]
            return None
        return read.spot, read.on_demand

    def expire(self, now_seconds: float) -> None:
        for held in (self._owners, self._pods):
            for uid in [uid for uid, read in held.items() if now_seconds - read.at_seconds >= KEPT_SECONDS]:
                del held[uid]
