"""The objects of a cluster as operators meet them: most of a pod's JSON is template that its siblings repeat.

Everything follows from numbers, so that two runs load the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

REPLICAS = 20  # pods a Deployment, all of its newest ReplicaSet
TOUCHED = "example.com/touched"  # the annotation that a burst of changes writes
ZONES = ("a", "b", "c")
NAMESPACES = 40
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_AGE_SPREAD = timedelta(days=30)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

Json = dict[str, Any]


def namespace_of(number: int) -> str:
    return f"team-{number % NAMESPACES:02}"


def node_name(number: int) -> str:
    return f"ip-10-{number // 250}-{number % 250}-17.eu-central-1.compute.internal"


def node(number: int) -> Json:
    zone, spot = ZONES[number % 3], number % 2
    return {
        "metadata": {
            "name": node_name(number),
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "failure-domain.beta.kubernetes.io/region": "eu-central-1",
                "failure-domain.beta.kubernetes.io/zone": f"eu-central-1{zone}",
                "karpenter.sh/capacity-type": "spot" if spot else "on-demand",
                "karpenter.sh/nodepool": "default",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": node_name(number),
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.8xlarge",
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": f"eu-central-1{zone}",
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"i-{number:017x}"}}',
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "providerID": f"aws:///eu-central-1{zone}/i-{number:017x}",
            "taints": [{"key": "example.com/spot", "value": "true", "effect": "PreferNoSchedule"}] if spot else [],
        },
    }


def node_status(number: int) -> Json:
    started = _stamp(_EPOCH + timedelta(minutes=number))
    amounts = {"cpu": "32", "ephemeral-storage": "101430960Ki", "memory": "129735644Ki", "pods": "234"}
    fine = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    return {
        "capacity": amounts,
        "allocatable": {**amounts, "cpu": "31850m", "memory": "126437916Ki"},
        "addresses": [
            {"type": "InternalIP", "address": f"10.{number // 250}.{number % 250}.17"},
            {"type": "Hostname", "address": node_name(number)},
        ],
        "conditions": [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": started,
                "lastTransitionTime": started,
            }
            for type_, status, reason, message in fine
        ],
        "images": [
            {"names": [f"registry.example.com/image-{image}@sha256:{image:064x}"], "sizeBytes": 10**8 + image}
            for image in range(30)
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"{number:08x}-0000-4000-8000-000000000000",
            "containerRuntimeVersion": "containerd://2.0.4",
            "kernelVersion": "6.1.134",
            "kubeProxyVersion": "v1.36.3",
            "kubeletVersion": "v1.36.3",
            "machineID": f"{number:032x}",
            "operatingSystem": "linux",
            "osImage": "Example Linux 2026",
            "systemUUID": f"{number:08x}-0000-4000-8000-000000000001",
        },
    }


def deployment(number: int) -> Json:
    return {
        "metadata": {
            "name": _app(number),
            "namespace": namespace_of(number),
            "labels": _app_labels(number),
            "annotations": {"deployment.kubernetes.io/revision": "2", "example.com/owner": f"squad-{number % 17}"},
        },
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app.kubernetes.io/name": _app(number)}},
            "template": _template(number, revision=2, labels=_app_labels(number)),
        },
    }


def replicaset(number: int, revision: int, owner_uid: str) -> Json:
    """Revision 2 runs; revision 1 is what a rollback would return to."""
    labels = {**_app_labels(number), "pod-template-hash": _hash(number, revision)}
    return {
        "metadata": {
            "name": f"{_app(number)}-{_hash(number, revision)}",
            "namespace": namespace_of(number),
            "labels": labels,
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": str(REPLICAS),
                "deployment.kubernetes.io/max-replicas": str(REPLICAS + REPLICAS // 4),
                "deployment.kubernetes.io/revision": str(revision),
                "example.com/owner": f"squad-{number % 17}",
            },
            "ownerReferences": [_owner("Deployment", _app(number), owner_uid)],
        },
        "spec": {
            "replicas": REPLICAS if revision == 2 else 0,
            "selector": {"matchLabels": labels},
            "template": _template(number, revision, labels),
        },
    }


def pods(number: int, owner_uid: str, nodes: int, count: int = REPLICAS) -> Iterator[tuple[Json, Json]]:
    """The pods of a Deployment's newest ReplicaSet, each with the status that its kubelet would report."""
    rng = random.Random(number)
    template = _template(number, 2, {**_app_labels(number), "pod-template-hash": _hash(number, 2)})
    rollout = _EPOCH + rng.random() * _AGE_SPREAD
    for index in range(count):
        suffix = "".join(rng.choices(_LETTERS, k=5))
        started = rollout + timedelta(seconds=index // 5 * 8 + rng.randrange(3))
        host = rng.randrange(nodes)
        spec = dict(template["spec"])
        token = f"kube-api-access-{suffix}"
        spec["volumes"] = [*spec["volumes"], _token_volume(token)]
        mount = {"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        for group in ("containers", "initContainers"):
            spec[group] = [{**c, "volumeMounts": [*c["volumeMounts"], mount]} for c in spec[group]]
        yield (
            {
                "metadata": {
                    "name": f"{_app(number)}-{_hash(number, 2)}-{suffix}",
                    "generateName": f"{_app(number)}-{_hash(number, 2)}-",
                    "namespace": namespace_of(number),
                    "labels": template["metadata"]["labels"],
                    "annotations": template["metadata"]["annotations"],
                    "ownerReferences": [_owner("ReplicaSet", f"{_app(number)}-{_hash(number, 2)}", owner_uid)],
                },
                "spec": {**spec, "nodeName": node_name(host)},
            },
            _pod_status(spec, started, host, rng),
        )


def _template(number: int, revision: int, labels: Mapping[str, str]) -> Json:
    app = _app(number)
    settings = [
        {"name": f"{app.upper().replace('-', '_')}_SETTING_{i:02}", "value": f"value-{number}-{i}-{'x' * (i % 24)}"}
        for i in range(3)
    ]
    main = {
        "name": "main",
        "image": f"registry.example.com/{app}:1.{number % 90}.{revision}",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--config=/etc/app/config.yaml", "--log-format=json", f"--shard={number % 8}"],
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *settings,
        ],
        "resources": {
            "requests": {"cpu": f"{100 + 50 * (number % 8)}m", "memory": f"{256 * (1 + number % 5)}Mi"},
            "limits": {"memory": f"{512 * (1 + number % 5)}Mi"},
        },
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "scratch", "mountPath": "/tmp"}],
    }
    sidecar = {
        "name": "proxy",
        "image": "registry.example.com/mesh/proxy:1.24.3",
        "imagePullPolicy": "IfNotPresent",
        "args": ["proxy", "sidecar", "--domain", f"{namespace_of(number)}.svc.cluster.local"],
        "ports": [{"name": "mesh", "containerPort": 15090}],
        "resources": {"requests": {"cpu": "10m", "memory": "40Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "volumeMounts": [],
    }
    init = {
        "name": "migrate",
        "image": main["image"],
        "args": ["migrate"],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
    }
    in_zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"eu-central-1{z}" for z in ZONES]}
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    return {
        "metadata": {
            "labels": dict(labels),
            "annotations": {
                "checksum/config": f"{number:032x}{revision:032x}",
                "prometheus.io/port": "9090",
                "prometheus.io/scrape": "true",
                "sidecar.example.com/inject": "true",
            },
        },
        "spec": {
            "containers": [main, sidecar],
            "initContainers": [init],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [in_zones]}]
                    }
                }
            },
            "tolerations": [{"key": "example.com/spot", "operator": "Exists"}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": selector,
                }
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "mesh", "emptyDir": {"medium": "Memory"}},
            ],
            "serviceAccountName": app,
            "securityContext": {"fsGroup": 1000, "runAsUser": 1000},
            "terminationGracePeriodSeconds": 45,
        },
    }


def _pod_status(spec: Json, started: datetime, host: int, rng: random.Random) -> Json:
    ready = started + timedelta(seconds=rng.randrange(4, 40))
    conditions = [
        {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": _stamp(when)}
        for type_, when in (
            ("PodReadyToStartContainers", started + timedelta(seconds=2)),
            ("Initialized", started + timedelta(seconds=4)),
            ("Ready", ready),
            ("ContainersReady", ready),
            ("PodScheduled", started),
        )
    ]
    address = f"10.{128 + host // 250}.{host % 250}.{rng.randrange(2, 250)}"
    running = {"running": {"startedAt": _stamp(started + timedelta(seconds=4))}}
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": f"10.{host // 250}.{host % 250}.17",
        "hostIPs": [{"ip": f"10.{host // 250}.{host % 250}.17"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _stamp(started),
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"{container['image'].split(':')[0]}@sha256:{rng.getrandbits(256):064x}",
                "containerID": f"containerd://{rng.getrandbits(256):064x}",
                "ready": True,
                "started": True,
                "restartCount": int(rng.random() < 0.05),
                "state": running,
            }
            for container in spec["containers"]
        ],
    }


def _token_volume(name: str) -> Json:
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]
        },
    }


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": 8080}, "initialDelaySeconds": 5, "timeoutSeconds": 2, "periodSeconds": 10}


def _owner(kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def _app(number: int) -> str:
    return f"service-{number:04}"


def _app_labels(number: int) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": _app(number),
        "app.kubernetes.io/part-of": f"product-{number % 23}",
        "example.com/tier": ("frontend", "backend", "batch")[number % 3],
        "example.com/team": namespace_of(number),
    }


def _hash(number: int, revision: int) -> str:
    rng = random.Random(number * 1000 + revision)
    return "".join(rng.choices(_LETTERS, k=10))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
