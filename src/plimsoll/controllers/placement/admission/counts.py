"""Pods of each ReplicaSet by class, kept up to date change by change: an admission must not walk a thousand siblings.

Says at every moment what `counting.count` would say of the owner's pods.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger
from plimsoll.controllers.placement.annotations import TOKEN
from plimsoll.controllers.placement.capacity_class import ClassRules, RulesInUse
from plimsoll.controllers.placement.replica_counts import active, class_of
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.cache.store import Name, View
from plimsoll.kube.types.core import KubeObject, Node, Pod
from plimsoll.kube.types.resources import BY_NODE, NODES, PODS, Resource


class OwnerCounts(Struct):
    """One owner's active pods."""

    uid: str
    spot: int = 0
    on_demand: int = 0


class AdmissionCounts:
    """Listens to pods and nodes. A pod that comes into view leaves the ledger in the same step: it is never counted twice."""

    def __init__(self, view: View, rules: ClassRules, ledger: AdmissionLedger) -> None:
        self._view = view
        self._rules = rules
        self._ledger = ledger
        self._owners: dict[str, OwnerCounts] = {}
        self._places: dict[Name, tuple[OwnerCounts, CapacityClass]] = {}  # as what each pod is counted
        self._in_use = RulesInUse(rules)
        for node in view[NODES]:
            self._node_changed(None, node)
        for pod in view[PODS]:
            self._pod_changed(None, pod)
        view[NODES].listen(self._changed)
        view[PODS].listen(self._changed)

    def of(self, owner_uid: str) -> tuple[int, int]:
        """Spot and on-demand."""
        counts = self._owners.get(owner_uid)
        return (counts.spot, counts.on_demand) if counts is not None else (0, 0)

    @property
    def rules_in_use(self) -> ClassRules:
        """As `ClassRules.in_use` of all nodes."""
        return self._in_use.now

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
            return  # heartbeats are most of what changes on nodes
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
        capacity_class = class_of(pod, self._view, self._rules)
        held = self._places.get(name)
        if held is not None and held[0].uid == owner.uid and held[1] is capacity_class:
            return
        self._uncount(name)
        counts = self._owners.get(owner.uid)
        if counts is None:
            counts = self._owners[owner.uid] = OwnerCounts(owner.uid)
        self._places[name] = (counts, capacity_class)
        if capacity_class is CapacityClass.SPOT:
            counts.spot += 1
        else:
            counts.on_demand += 1

    def _uncount(self, name: Name) -> None:
        held = self._places.pop(name, None)
        if held is None:
            return
        counts, capacity_class = held
        if capacity_class is CapacityClass.SPOT:
            counts.spot -= 1
        else:
            counts.on_demand -= 1
        if not counts.spot and not counts.on_demand:
            del self._owners[counts.uid]
