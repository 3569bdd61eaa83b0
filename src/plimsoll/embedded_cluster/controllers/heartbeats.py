"""Node leases that kubelets renew every few seconds.

Off by default: in virtual time the renewals would be most of the work of a simulated day.
"""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, name_of, uid_of
from plimsoll.embedded_cluster.api.kinds import LEASES, NODES
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.api.timestamps import micro_timestamp
from plimsoll.embedded_cluster.controllers.context import ControllerContext
from plimsoll.embedded_cluster.controllers.kubelets import Kubelets

_HOME = "kube-node-lease"
_DURATION_SECONDS = 40  # the kubelet's own default


class Heartbeats:
    def __init__(self, context: ControllerContext, kubelets: Kubelets, *, every_seconds: float) -> None:
        self._context = context
        self._kubelets = kubelets
        context.on_change(NODES, self._node_changed)
        context.timers.call_every(every_seconds, self._renew_all)

    def _node_changed(self, change: ObjectChange) -> None:
        name = name_of(change.object)
        if change.type == "ADDED":
            self._renew(change.object)
        elif change.type == "DELETED" and self._context.storage.get(LEASES, _HOME, name) is not None:
            self._context.storage.remove(LEASES, _HOME, name)

    def _renew_all(self) -> None:
        for node in self._context.storage.collection(NODES).all():
            if self._kubelets.answers_for(name_of(node)):
                self._renew(node)

    def _renew(self, node: Json) -> None:
        context, name, now = self._context, name_of(node), self._context.now()
        before = context.storage.get(LEASES, _HOME, name)
        spec = {"holderIdentity": name, "leaseDurationSeconds": _DURATION_SECONDS, "renewTime": micro_timestamp(now)}
        if before is not None:
            context.storage.put(LEASES, {**before, "spec": spec})
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
        metadata = {
            "name": name,
            "namespace": _HOME,
            "uid": context.objects.writer.new_uid(),
            "creationTimestamp": context.timestamp(),
            "ownerReferences": [owner],
        }
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        context.storage.put(LEASES, lease)
