"""Attach limits, claims for one pod, topologies of unbound claims, device claims and resizes on a real kube-scheduler.

What kube-scheduler refuses, `fits` refuses, and for the same reason; what it binds, `fits` allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import Constraint
from plimsoll.scheduling.snapshot import Snapshot
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.real

T = TypeVar("T", bound=KubeObject)
DRIVER = "disk.example.com"
STORAGE = "/apis/storage.k8s.io/v1"


class Volumes:
    """A namespace with volumes, and the cluster as the engine sees it."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def add_claim(self, name: str, mode: str = "ReadWriteOnce") -> None:
        """A claim bound to a CSI volume of its own."""
        spec = {"accessModes": [mode], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
        of = {"namespace": self.namespace, "name": name}
        volume = f"{self.namespace}-{name}"
        self.cluster.request("POST", "/api/v1/persistentvolumes", {
            "metadata": {"name": volume},
            "spec": {
                "accessModes": [mode], "capacity": {"storage": "1Gi"}, "claimRef": of,
                "csi": {"driver": DRIVER, "volumeHandle": volume}, "persistentVolumeReclaimPolicy": "Retain",
            },
        })  # fmt: skip
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        self.cluster.request("POST", path, {"metadata": {"name": name}, "spec": {**spec, "volumeName": volume}})

        def bound() -> bool:
            return bool(self.cluster.request("GET", f"{path}/{name}").get("status", {}).get("phase") == "Bound")

        self.cluster.wait_for(bound, f"claim {name} to be bound")

    def pod(self, name: str, node: str, *claims: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
        """A pod that may run on one node only."""
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        return {
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims],
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }

    def judged(self, manifest: dict[str, Any], node: str) -> tuple[bool, str, Constraint | None]:
        """Whether kube-scheduler binds the pod, what it says otherwise, and what `fits` said before."""
        asking = convert({**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}, Pod)
        reason = fits(self.snapshot(), asking, node)
        self.cluster.request("POST", self.pods, manifest)
        path = f"{self.pods}/{manifest['metadata']['name']}"
        found: dict[str, Any] = {}

        def decided() -> bool:
            nonlocal found
            found = self.cluster.request("GET", path)
            return bool(found["spec"].get("nodeName")) or bool(self._says(found))

        self.cluster.wait_for(decided, f"kube-scheduler to decide about {manifest['metadata']['name']}")
        return bool(found["spec"].get("nodeName")), self._says(found), reason.rule if reason else None

    @staticmethod
    def _says(pod: dict[str, Any]) -> str:
        conditions = pod.get("status", {}).get("conditions", [])
        return next(
            (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
        )

    def snapshot(self) -> Snapshot:
        return Snapshot.build(
            self._all("/api/v1/nodes", Node),
            self._all("/api/v1/pods", Pod),
            claims=self._all("/api/v1/persistentvolumeclaims", PersistentVolumeClaim),
            volumes=self._all("/api/v1/persistentvolumes", PersistentVolume),
            storage_classes=self._all(f"{STORAGE}/storageclasses", StorageClass),
            csi_nodes=self._all(f"{STORAGE}/csinodes", CSINode),
        )

    def _all(self, path: str, kind: type[T]) -> list[T]:
        return [convert(item, kind) for item in self.cluster.request("GET", path)["items"]]


@pytest.fixture
def volumes(control_plane: ControlPlane, namespace: str) -> Volumes:
    return Volumes(control_plane, namespace)


@pytest.fixture
def node(kwok_nodes: Callable[[str], list[str]]) -> str:
    (name,) = kwok_nodes("1 zone=a cpu=4")
    return name


def limit(cluster: ControlPlane, node: str, count: int) -> None:
    driver = {"name": DRIVER, "nodeID": node, "topologyKeys": None, "allocatable": {"count": count}}
    cluster.request("POST", f"{STORAGE}/csinodes", {"metadata": {"name": node}, "spec": {"drivers": [driver]}})


def test_attach_limits(volumes: Volumes, node: str) -> None:
    limit(volumes.cluster, node, 2)
    for name in ("a", "b", "c"):
        volumes.add_claim(name)
    assert volumes.judged(volumes.pod("one", node, "a"), node) == (True, "", None)
    assert volumes.judged(volumes.pod("shares", node, "a"), node) == (True, "", None)
    assert volumes.judged(volumes.pod("two", node, "b"), node) == (True, "", None)
    bound, says, ours = volumes.judged(volumes.pod("three", node, "c"), node)
    assert not bound and "exceed max volume count" in says and ours is Constraint.VOLUME_ATTACH_LIMIT


def test_a_claim_for_one_pod(volumes: Volumes, node: str) -> None:
    volumes.add_claim("only", "ReadWriteOncePod")
    assert volumes.judged(volumes.pod("first", node, "only"), node) == (True, "", None)
    bound, says, ours = volumes.judged(volumes.pod("second", node, "only"), node)
    assert not bound and "ReadWriteOncePod" in says and ours is Constraint.VOLUME


@pytest.mark.parametrize(
    ("more", "zone", "binds"),
    [
        ({"volumeBindingMode": "WaitForFirstConsumer"}, "b", False),
        ({"volumeBindingMode": "Immediate"}, "a", False),
    ],
    ids=["another zone", "immediate"],
)
def test_unbound_claims(volumes: Volumes, node: str, more: dict[str, Any], zone: str, binds: bool) -> None:
    name = volumes.namespace
    terms = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}]
    volumes.cluster.request(
        "POST", f"{STORAGE}/storageclasses",
        {"metadata": {"name": name}, "provisioner": DRIVER, "allowedTopologies": terms, **more},
    )  # fmt: skip
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}
    path = f"/api/v1/namespaces/{volumes.namespace}/persistentvolumeclaims"
    volumes.cluster.request("POST", path, {"metadata": {"name": "data"}, "spec": spec})
    try:
        bound, says, ours = volumes.judged(volumes.pod("p", node, "data"), node)
        assert bound is binds and says and ours is Constraint.VOLUME
    finally:
        volumes.cluster.request("DELETE", f"{STORAGE}/storageclasses/{name}")


def test_device_claims(volumes: Volumes, node: str) -> None:
    path = f"/apis/resource.k8s.io/v1/namespaces/{volumes.namespace}/resourceclaims"
    device = {"name": "gpu", "exactly": {"deviceClassName": "none", "allocationMode": "ExactCount", "count": 1}}
    volumes.cluster.request("POST", path, {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [device]}}})
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    bound, says, ours = volumes.judged(volumes.pod("p", node, resourceClaims=claims), node)
    assert not bound and says and ours is Constraint.DEVICE_CLAIM


def test_a_shrink_that_is_not_carried_out_yet(volumes: Volumes, node: str) -> None:
    assert volumes.judged(volumes.pod("large", node, cpu="3"), node)[0]
    path = f"{volumes.pods}/large"

    def running() -> bool:
        return bool(volumes.cluster.request("GET", path)["status"].get("phase") == "Running")

    volumes.cluster.wait_for(running, "the pod to run")
    merge = "application/strategic-merge-patch+json"
    # As a kubelet reports it, which KWOK does not. Without it the API server takes no resize.
    held = {"name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 0,
            "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}  # fmt: skip
    volumes.cluster.request("PATCH", f"{path}/status", {"status": {"containerStatuses": [held]}}, content_type=merge)
    smaller = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}
    volumes.cluster.request("PATCH", f"{path}/resize", smaller, content_type=merge)
    bound, says, ours = volumes.judged(volumes.pod("next", node, cpu="2"), node)
    assert not bound and "Insufficient cpu" in says and ours is Constraint.RESOURCES
