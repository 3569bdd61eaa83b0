"""A cluster of thousands of nodes in groups, its pods, and those that wait: as objects in a view, without an API server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories, ProviderInventory
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.kube.types.resources import NODES, PODS, REPLICASETS, Resource
from plimsoll.providers.protocol import Capabilities, Offering

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = 10
OFFERING = Offering(
    "large",
    capacity={"cpu": parse_quantity("8"), "memory": parse_quantity("32Gi"), "pods": parse_quantity("110")},
    price_per_hour=0.2,
)
_SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def _stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def view_of(
    controller: NodeGroupController, *, nodes: int, pods_a_node: int, waiting: int, cpu: str, first_pod: int = 0
) -> View:
    """`cpu`: what each pod asks for. Pods of a workload are alike, and there are fifty of each."""
    before = _stamp(NOW - timedelta(hours=1))
    groups = [_group(number) for number in range(GROUPS)]
    members, machines, pods = [], [], []
    for number in range(nodes):
        members.append(_member(number, before))
        machines.append(_machine(number, before))
        first = first_pod + number * pods_a_node
        pods += [_pod(one, f"node-{number}", cpu, before) for one in range(first, first + pods_a_node)]
    pods += [_waiting_pod(first_pod + nodes * pods_a_node + number, before) for number in range(waiting)]
    owners = sorted({pod.metadata.controller.name for pod in pods if pod.metadata.controller is not None})
    objects: dict[Resource[Any], Sequence[Any]] = dict.fromkeys(controller.watches, ())
    objects |= {NODE_GROUPS: groups, VPSIE_NODES: members, NODES: machines, PODS: pods}
    objects[REPLICASETS] = [_owner(name) for name in owners]
    return View.of(objects)


def inventories() -> ProviderInventories:
    known = ProviderInventories()
    can = Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=True)
    known.record("cloud", ProviderInventory.of(NOW, (), {"dc-1": (OFFERING,)}, can))
    return known


def _group(number: int) -> NodeGroup:
    spec = {
        "minNodes": 0, "maxNodes": 100_000, "datacenterID": "dc-1", "offeringIDs": [OFFERING.id], "provider": "cloud",
        "scaleDownPolicy": {"underutilizationDuration": "1s", "cooldownSeconds": 1},
    }  # fmt: skip
    meta = {"name": f"group-{number}", "namespace": "default", "uid": f"group-{number}", "resourceVersion": "1"}
    return convert({"metadata": meta, "spec": spec}, NodeGroup)


def _member(number: int, since: str) -> VPSieNode:
    group, name = f"group-{number % GROUPS}", f"node-{number}"
    meta = {
        "name": name, "namespace": "default", "uid": f"member-{number}", "resourceVersion": "1",
        "creationTimestamp": since, "finalizers": ["autoscaler.vpsie.com/vpsienode"],
    }  # fmt: skip
    spec = {"nodeGroupName": group, "provider": "cloud", "datacenterID": "dc-1", "instanceType": OFFERING.id}
    body = {"metadata": meta, "spec": {**spec, "vpsieInstanceID": f"m{number}"}, "status": {"phase": "Ready"}}
    return convert(body, VPSieNode)


def _machine(number: int, since: str) -> Node:
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "autoscaler.vpsie.com/vpsienode": f"node-{number}",
        "autoscaler.vpsie.com/nodegroup": f"group-{number % GROUPS}",
        "autoscaler.vpsie.com/offering": OFFERING.id,
        "autoscaler.vpsie.com/datacenter": "dc-1",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    status = {"capacity": _SIZE, "allocatable": _SIZE, "conditions": [ready]}
    meta = {"name": f"node-{number}", "uid": f"node-{number}", "resourceVersion": "1", "labels": labels}
    return convert({"metadata": meta, "spec": {}, "status": status}, Node)


def _pod(number: int, node: str, cpu: str, since: str) -> Pod:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    status = {"phase": "Running", "conditions": [ready]}
    return convert({**_template(number, cpu, node), "status": status}, Pod)


def _waiting_pod(number: int, since: str) -> Pod:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    return convert({**_template(number, "1", ""), "status": {"phase": "Pending", "conditions": [refused]}}, Pod)


def _template(number: int, cpu: str, node: str) -> dict[str, Any]:
    app = f"app-{number // 50}"
    owner = {"kind": "ReplicaSet", "name": app, "uid": f"owner-{app}", "controller": True}
    meta = {
        "name": f"{app}-{number}", "namespace": "default", "uid": f"pod-{number}", "resourceVersion": "1",
        "labels": {"app": app}, "ownerReferences": [owner],
    }  # fmt: skip
    requests = {"cpu": cpu, "memory": "256Mi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return {"metadata": meta, "spec": {**spec, "nodeName": node} if node else spec}


def _owner(name: str) -> ReplicaSet:
    meta = {"name": name, "namespace": "default", "uid": f"owner-{name}", "resourceVersion": "1"}
    spec = {"replicas": 50, "selector": {"matchLabels": {"app": name}}}
    return convert({"metadata": meta, "spec": spec, "status": {"readyReplicas": 50}}, ReplicaSet)
