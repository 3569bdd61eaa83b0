"""Filling an embedded cluster: from a snapshot, from lines of nodes, from manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.kube.codec import builtins
from plimsoll.sim.api import kinds
from plimsoll.sim.api.kinds import BUILT_IN, Kind
from plimsoll.sim.api.status import Refused
from plimsoll.sim.cluster import Cluster
from plimsoll.simulation.changes import ChangeError
from plimsoll.still.views import Still

_BY_NAME: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in BUILT_IN}
# Owners before what they own: controllers look as soon as an object is there.
_ORDER = ("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "Pod", "ReplicaSet",
          "Deployment", "StatefulSet", "DaemonSet", "ConfigMap")  # fmt: skip


async def populate(cluster: Cluster, still: Still | None, node_lines: Sequence[str]) -> None:
    """What was there before the operator."""
    if still is not None:
        await _load(cluster, still)
    for line in node_lines:
        await cluster.add_nodes(line)


async def _load(cluster: Cluster, still: Still) -> None:
    there = set(cluster.api.storage.collection(kinds.NAMESPACES).by_namespace.get("", {}))
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for store in still.view.stores():
        by_kind[store.resource.kind] = [builtins(obj) for obj in store]
    named = {item["metadata"]["name"] for item in by_kind.get("Namespace", ())}
    homes = {item["metadata"].get("namespace", "") for items in by_kind.values() for item in items} - {""}
    for missing in sorted((homes | named) - there):
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": missing}})
    for name in _ORDER:
        kind = next((one for one in BUILT_IN if one.kind == name), None)
        if kind is not None and name != "Namespace":
            cluster.load(kind, by_kind.get(name, ()))


async def create(cluster: Cluster, document: dict[str, Any]) -> None:
    kind = _BY_NAME.get((document.get("apiVersion", ""), document.get("kind", "")))
    meta = document.get("metadata") or {}
    title = f"{document.get('kind')} {meta.get('name')}"
    if kind is None:
        raise ChangeError(f"{title}: the embedded cluster does not know {document.get('apiVersion')}")
    namespace = meta.get("namespace", "default") if kind.namespaced else ""
    if namespace and cluster.api.storage.get(kinds.NAMESPACES, "", namespace) is None:
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
    try:
        await cluster.create(kind, document, namespace)
    except Refused as refusal:
        raise ChangeError(f"{title}: {refusal.message}") from None
