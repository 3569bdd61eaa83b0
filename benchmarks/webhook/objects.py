"""A cluster of 20,000 pods, and what an API server asks about one more."""

from __future__ import annotations

from typing import Any

import msgspec

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS

NODE_COUNT = 300
WORKLOADS = 2000
REPLICAS = 20  # asked for; half of them are there, so that each question finds some missing
RUNNING = 10


def pod(workload: int, name: str, node: str = "", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """About five kilobytes, as an API server writes them."""
    noise = {f"example.com/setting-{number}": "x" * 60 for number in range(12)}
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app-{workload}:1.4.2",
        "env": [{"name": f"VARIABLE_{number}", "value": "y" * 50} for number in range(20)],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [
            {"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"app-{workload}-5d4f8c7b9-",
            **({"name": name, "uid": f"pod-{name}"} if name else {}),
            "namespace": f"team-{workload % 50}",
            "labels": {"app": f"app-{workload}", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {**noise, **(annotations or {})},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{workload}-5d4f8c7b9",
                    "uid": f"rs-{workload}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [container, {**container, "name": "proxy"}],
            "nodeName": node,
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}
                        ]
                    }
                }
            },
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def review(workload: int, number: int) -> bytes:
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": f"team-{workload % 50}",
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "groups": ["system:masters"],
        },
        "object": pod(workload, ""),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def view() -> View:
    nodes = [
        {
            "metadata": {
                "name": f"n{n}",
                "uid": f"n{n}",
                "labels": {"karpenter.sh/capacity-type": "spot" if n % 2 else "on-demand"},
            }
        }
        for n in range(NODE_COUNT)
    ]
    deployments, replica_sets, pods = [], [], []
    for workload in range(WORKLOADS):
        place = {"namespace": f"team-{workload % 50}"}
        annotations = {
            "spotalis.io/enabled": "true",
            "spotalis.io/spot-percentage": "70%",
            "spotalis.io/min-on-demand": "2",
        }
        name = f"app-{workload}"
        deployments.append(
            {
                "metadata": {**place, "name": name, "uid": f"d-{workload}", "annotations": annotations},
                "spec": {"replicas": REPLICAS},
            }
        )
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": f"d-{workload}",
            "controller": True,
        }
        replica_sets.append(
            {
                "metadata": {**place, "name": f"{name}-5d4f8c7b9", "uid": f"rs-{workload}", "ownerReferences": [owner]},
                "spec": {"replicas": REPLICAS},
            }
        )
        pods += [
            convert(pod(workload, f"{name}-{number}", f"n{(workload + number) % NODE_COUNT}"), Pod)
            for number in range(RUNNING)
        ]
    return View.of(
        {
            NODES: [convert(node, Node) for node in nodes],
            DEPLOYMENTS: [convert(deployment, Deployment) for deployment in deployments],
            REPLICASETS: [convert(replica_set, ReplicaSet) for replica_set in replica_sets],
            STATEFULSETS: [],
            PODS: pods,
            PlacementSettings().memory: [],
        }
    )
