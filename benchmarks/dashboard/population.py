"""A large cluster as the operator's stores hold it: zones, groups of both classes, workloads that ask for everything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from msgspec.structs import replace

from plimsoll.controllers.nodegroups.types import NODE_GROUP, NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.kube.cache.interning import intern_parts
from plimsoll.kube.cache.store import Store, View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Namespace, Node, Pod
from plimsoll.kube.types.meta import Condition, KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS
from plimsoll.runtime.decision import Controller
from plimsoll.runtime.operator import watched_by

CLASS_LABEL = "karpenter.sh/capacity-type"
_ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
# Two of the groups are NodeGroups, where the view has that kind; the others are somebody else's.
_GROUPS = ("general", "general-spot", "memory", "compute-spot", "batch-spot", "storage")
_OURS = ("memory", "compute-spot")
_HOME = "plimsoll-system"


class Population:
    """The stores of a view, filled; and pods that come and go afterwards."""

    def __init__(self, controllers: Iterable[Controller], *, nodes: int, pods: int, workloads: int = 500) -> None:
        self._rng = Random(7)
        self._began = datetime.now(UTC)
        self._serial = 0
        self._stores: dict[Any, Store[Any]] = {kind: Store(kind) for kind in watched_by(tuple(controllers))}
        for store in self._stores.values():
            store.synced = True
        self.view = View(self._stores)
        self._nodes = [self._node(number) for number in range(nodes)]
        self._sets: list[ReplicaSet] = []
        namespaces = [f"team-{number}" for number in range(20)]
        for name in namespaces:
            self._put(NAMESPACES, convert({"metadata": self._meta(name, "")}, Namespace))
        each = max(1, pods // workloads)
        for number in range(workloads):
            self._workload(f"service-{number}", namespaces[number % len(namespaces)], each)
        for number in range(pods):
            self._pod(self._sets[number // each % workloads], self._nodes[number % nodes])
        for number in range(min(40, pods // 100)):
            self._pod(self._sets[number % workloads], None)

    def change(self, pods: int) -> None:
        """So many pods begin to leave, are gone, or are replaced elsewhere."""
        chosen = self._rng.sample(list(self.view[PODS].names()), pods)
        for name in chosen:
            pod = self.view[PODS].get(*name)
            if pod is None or not pod.spec.node_name:
                continue
            if pod.terminating:
                self._stores[PODS].remove(*name)
                owner = pod.metadata.controller
                found = self.view[REPLICASETS].get(pod.namespace, owner.name) if owner is not None else None
                if found is not None:
                    self._pod(found, self._rng.choice(self._nodes), ready=False)
            elif pod.ready:
                leaving = replace(pod.metadata, deletion_timestamp=datetime.now(UTC), resource_version=self._version())
                self._put(PODS, replace(pod, metadata=leaving))
            else:
                conditions = (Condition(type="Ready", status="True", last_transition_time=datetime.now(UTC)),)
                status = replace(pod.status, phase="Running", conditions=conditions)
                self._put(
                    PODS,
                    replace(pod, status=status, metadata=replace(pod.metadata, resource_version=self._version())),
                )

    # ── one of each kind ─────────────────────────────────────────────────────────────────────────────────────────────

    def _version(self) -> str:
        self._serial += 1
        return str(self._serial)

    def _meta(self, name: str, namespace: str, owner: KubeObject | None = None, **fields: Any) -> dict[str, Any]:
        version = self._version()
        made = self._began - timedelta(minutes=self._rng.randrange(10, 10_000))
        meta = {
            "name": name, "namespace": namespace, "uid": f"uid-{version}", "resourceVersion": version,
            "creationTimestamp": made.isoformat().replace("+00:00", "Z"), **fields,
        }  # fmt: skip
        if owner is not None:
            kind = type(owner).__name__
            meta["ownerReferences"] = [{"kind": kind, "name": owner.name, "uid": owner.uid, "controller": True}]
        return meta

    def _put(self, kind: Any, obj: KubeObject) -> None:
        store = self._stores.get(kind)
        if store is None:
            return  # nobody watches this kind
        intern_parts(obj, store)
        store.put(obj)
        store.resource_version = obj.metadata.resource_version

    def _node(self, number: int) -> Node:
        group = _GROUPS[number % len(_GROUPS)]
        spot = group.endswith("spot")
        name = f"ip-10-{number // 65536}-{number // 256 % 256}-{number % 256}"
        ours = group in _OURS and NODE_GROUPS in self._stores
        labels = {
            "topology.kubernetes.io/zone": _ZONES[number // len(_GROUPS) % len(_ZONES)],
            CLASS_LABEL: "spot" if spot else "on-demand",
            "kubernetes.io/hostname": name,
            (NODE_GROUP if ours else "karpenter.sh/nodepool"): group,
        }
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        body = {
            "metadata": self._meta(name, "", labels=labels),
            "spec": {"unschedulable": number % 97 == 96},
            "status": {
                "allocatable": room,
                "capacity": room,
                "conditions": [{"type": "Ready", "status": "False" if number % 211 == 210 else "True"}],
            },
        }
        node = convert(body, Node)
        self._put(NODES, node)
        if ours:
            self._member(node, group, labels)
        return node

    def _member(self, node: Node, group: str, labels: dict[str, str]) -> None:
        if self._stores[NODE_GROUPS].get(_HOME, group) is None:
            spec = {
                "minNodes": 1, "maxNodes": 2000, "provider": "kwok", "offeringIDs": ["large", "small"],
                "labels": {CLASS_LABEL: labels[CLASS_LABEL]},
            }  # fmt: skip
            self._put(NODE_GROUPS, convert({"metadata": self._meta(group, _HOME), "spec": spec}, NodeGroup))
        body = {
            "metadata": self._meta(f"{group}-{node.name}", _HOME, labels=labels),
            "spec": {"nodeGroupName": group, "provider": "kwok", "instanceType": "large", "nodeName": node.name},
            "status": {"phase": "Ready", "nodeName": node.name},
        }
        self._put(VPSIE_NODES, convert(body, VPSieNode))

    def _workload(self, name: str, namespace: str, replicas: int) -> None:
        annotations = {
            "spotalis.io/enabled": "true",
            "spotalis.io/spot-percentage": f"{30 + self._serial % 50}%",
            "spotalis.io/min-on-demand": "2",
            "pod-deletion-cost.lablabs.io/enabled": "true",
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
        status = {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1}
        made = convert(
            {
                "metadata": self._meta(name, namespace, annotations=annotations, generation=1),
                "spec": spec,
                "status": status,
            },
            Deployment,
        )
        self._put(DEPLOYMENTS, made)
        meta = self._meta(f"{name}-7d4f9c", namespace, made)
        replica_set = convert({"metadata": meta, "spec": spec, "status": status}, ReplicaSet)
        self._put(REPLICASETS, replica_set)
        self._sets.append(replica_set)

    def _pod(self, owner: ReplicaSet, node: Node | None, *, ready: bool = True) -> None:
        since = (self._began - timedelta(minutes=self._rng.randrange(5000))).isoformat().replace("+00:00", "Z")
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if ready else []
        if node is None:
            why = "0/5000 nodes are available: 5000 Insufficient memory."
            conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}]
        annotations = {}
        if node is not None:
            drawn = self._rng.random() < 0.02
            annotations[CLASS] = "spot" if drawn else node.labels[CLASS_LABEL]
        requests = {"cpu": "250m", "memory": "64Gi" if node is None else "512Mi"}
        body = {
            "metadata": self._meta(
                f"{owner.name}-{self._serial:06x}", owner.namespace, owner, labels={"app": owner.name}, annotations=annotations
            ),
            "spec": {
                "nodeName": node.name if node is not None else "",
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running" if ready and node is not None else "Pending", "conditions": conditions},
        }  # fmt: skip
        self._put(PODS, convert(body, Pod))
