"""Pods of each ReplicaSet by class, updated with every change, because an admission must not walk a thousand siblings.

The counts always equal `replica_counts.count` of the owner's pods.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger
from plimsoll.controllers.placement.annotations import TOKEN
from plimsoll.controllers.placement.capacity_class import ClassRules, RulesInUse
from plimsoll.controllers.placement.replica_counts import class_of
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.cache.store import Name, View
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import BY_NODE, NODES, PODS, Resource, owner_key
from plimsoll.kube.workloads import active


class OwnerCounts(Struct):
    """The active pods of one owner."""

    key: str  # namespace and UID of the ReplicaSet
    spot: int = 0
    on_demand: int = 0


class AdmissionCounts:
    """Listens to pods and nodes. A pod that appears in the view leaves the ledger in the same step, so it never counts twice."""

    def __init__(self, view: View, rules: ClassRules, ledger: AdmissionLedger) -> None:
        self._view = view
        self._rules = rules
        self._ledger = ledger
        self._owners: dict[str, OwnerCounts] = {}
        self._counted: dict[Name, tuple[OwnerCounts, CapacityClass]] = {}  # how each pod is counted
        self._in_use = RulesInUse(rules)
        for node in view[NODES]:
            self._node_changed(None, node)
        for pod in view[PODS]:
            self._pod_changed(None, pod)
        view[NODES].listen(self._changed)
        view[PODS].listen(self._changed)

    def of(self, namespace: str, owner_uid: str) -> tuple[int, int]:
        """Spot and on-demand pods of an owner."""
        counts = self._owners.get(owner_key(namespace, owner_uid))
        return (counts.spot, counts.on_demand) if counts is not None else (0, 0)

    @property
    def rules_in_use(self) -> ClassRules:
        """`ClassRules.in_use` of all nodes."""
        return self._in_use.current

    def _changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if resource is PODS:
            self._pod_changed(before, after)
        else:
            self._node_changed(before, after)

    def _pod_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if isinstance(after, Pod):
            if before is None and (token := after.metadata.annotations.get(TOKEN)) is not None:
                self._ledger.arrived(token)
            self._count(after)
        elif before is not None:
            self._uncount((before.metadata.namespace, before.metadata.name))

    def _node_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        self._in_use.node_changed(before, after)
        if before is not None and after is not None and before.metadata.labels == after.metadata.labels:
            return  # most node updates are heartbeats
        node = after or before
        if isinstance(node, Node):
            for pod in self._view[PODS].by(BY_NODE, node.name):
                self._count(pod)

    def _count(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        name = (pod.metadata.namespace, pod.metadata.name)
        if owner is None or owner.kind != "ReplicaSet" or not active(pod):
            self._uncount(name)
            return
        key = owner_key(pod.metadata.namespace, owner.uid)
        capacity_class = class_of(pod, self._view, self._rules)
        held = self._counted.get(name)
        if held is not None and held[0].key == key and held[1] is capacity_class:
            return
        self._uncount(name)
        counts = self._owners.get(key)
        if counts is None:
            counts = self._owners[key] = OwnerCounts(key)
        self._counted[name] = (counts, capacity_class)
        if capacity_class is CapacityClass.SPOT:
            counts.spot += 1
        else:
            counts.on_demand += 1

    def _uncount(self, name: Name) -> None:
        held = self._counted.pop(name, None)
        if held is None:
            return
        counts, capacity_class = held
        if capacity_class is CapacityClass.SPOT:
            counts.spot -= 1
        else:
            counts.on_demand -= 1
        if not counts.spot and not counts.on_demand:
            del self._owners[counts.key]
