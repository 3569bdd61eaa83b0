"""Volumes: a claim whose first pod has found its node gets one there, as a cloud's disks are made in the zone of their first pod.

From then on the claim keeps every later pod in that zone. Where nodes have no zones, a volume can be mounted everywhere.
"""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, at, labels_of, name_of, namespace_of, uid_of
from plimsoll.embedded_cluster.api.kinds import CLAIMS, PODS, VOLUMES
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.controllers.context import Context, Key

_ZONE = "topology.kubernetes.io/zone"


class VolumeController:
    def __init__(self, context: Context) -> None:
        self._context = context
        context.on_change(PODS, self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
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
        zone = labels_of(node).get(_ZONE)
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
            "creationTimestamp": self._context.stamp(),
        }
        return {"apiVersion": VOLUMES.api_version, "kind": VOLUMES.kind, "metadata": metadata, "spec": spec}
