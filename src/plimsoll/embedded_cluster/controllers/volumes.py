"""The volume controller: provisions a claim's volume when its first pod is bound (WaitForFirstConsumer), in that node's zone.

The volume then keeps later pods in that zone. Without zones a volume can be attached to every node.
"""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, namespace_of, object_labels, uid_of
from plimsoll.embedded_cluster.api.kinds import CLAIMS, PODS, VOLUMES
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key

_ZONE = "topology.kubernetes.io/zone"


class VolumeController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.on_change(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        node = change.object["spec"].get("nodeName")
        if not node or change.type == "DELETED" or (change.before and change.before["spec"].get("nodeName")):
            return
        for volume in change.object["spec"].get("volumes") or ():
            name = at(volume, "persistentVolumeClaim", "claimName")
            if name:
                self._provide((namespace_of(change.object), name), node)

    def _provide(self, key: Key, node_name: str) -> None:
        storage = self._context.storage
        claim, node = storage.get(CLAIMS, *key), storage.node(node_name)
        if claim is None or node is None or at(claim, "spec", "volumeName"):
            return
        name = f"pvc-{uid_of(claim)}"
        storage.put(VOLUMES, {**self._volume(name, claim, node), "status": {"phase": "Bound"}})
        spec = {**claim["spec"], "volumeName": name}
        storage.put(CLAIMS, {**claim, "spec": spec, "status": {**(claim.get("status") or {}), "phase": "Bound"}})

    def _volume(self, name: str, claim: Json, node: Json) -> Json:
        zone = object_labels(node).get(_ZONE)
        term = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [zone]}]}
        where: Json = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zone else {}
        ref = {"kind": "PersistentVolumeClaim", "namespace": namespace_of(claim), "name": name_of(claim)}
        spec: Json = {
            "capacity": at(claim, "spec", "resources", "requests", default={}),
            "accessModes": at(claim, "spec", "accessModes", default=["ReadWriteOnce"]),
            "claimRef": {**ref, "uid": uid_of(claim)},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": at(claim, "spec", "storageClassName", default=""),
            **where,
        }
        metadata = {
            "name": name,
            "uid": self._context.objects.writer.new_uid(),
            "creationTimestamp": self._context.timestamp(),
        }
        return {"apiVersion": VOLUMES.api_version, "kind": VOLUMES.kind, "metadata": metadata, "spec": spec}
