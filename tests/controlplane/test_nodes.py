"""KWOK nodes, and the annotations that steer them and their pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.controlplane.asking import bare_pod, pods, ready
from tools.controlplane.cluster import ControlPlane


def test_nodes_are_usable_when_they_are_returned(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    names = kwok_nodes("3 zone=b class=spot cpu=8 memory=32Gi prefix=n")
    assert names == ["n-0", "n-1", "n-2"]
    node = control_plane.request("GET", "/api/v1/nodes/n-2")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"
    assert node["status"]["allocatable"]["memory"] == "32Gi"
    assert not node["spec"].get("taints")
    assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}["Ready"] == "True"
    lease = control_plane.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n-2")
    assert lease["spec"]["renewTime"]
    assert kwok_nodes("2 prefix=n") == ["n-3", "n-4"]


def test_a_node_is_not_ready_while_its_annotation_says_so(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    (name,) = kwok_nodes("1 annotation:controlplane.test/ready=false")

    def status() -> str:
        conditions = control_plane.request("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
        return str(next((condition["status"] for condition in conditions if condition["type"] == "Ready"), None))

    control_plane.wait_for(lambda: status() == "False", "the node to be unready")
    control_plane.kubectl("annotate", "node", name, "controlplane.test/ready-")
    control_plane.wait_for(lambda: status() == "True", "the node to be ready")
    control_plane.kubectl("annotate", "node", name, "controlplane.test/ready=false")
    control_plane.wait_for(lambda: status() == "False", "the node to be unready again")


def test_annotations_of_a_pod_steer_its_readiness_and_its_end(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    kwok_nodes("1")
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.request("POST", path, bare_pod("moody", ready="false"))
    control_plane.request("POST", path, bare_pod("late", ready_after="1h"))
    control_plane.request("POST", path, bare_pod("clinging", gone_after="1h"))

    def pod(name: str) -> Any:
        return control_plane.request("GET", f"{path}/{name}")

    control_plane.wait_for(lambda: pod("clinging")["status"]["phase"] == "Running", "a pod to run")
    control_plane.wait_for(lambda: pod("moody")["status"]["phase"] == "Running", "a pod to run, unready")
    assert not ready(pod("moody"))
    control_plane.kubectl("annotate", "pod", "moody", "controlplane.test/ready-", f"--namespace={namespace}")
    control_plane.wait_for(lambda: ready(pod("moody")), "it to be ready")
    control_plane.kubectl("annotate", "pod", "moody", "controlplane.test/ready=false", f"--namespace={namespace}")
    control_plane.wait_for(lambda: not ready(pod("moody")), "it to be unready again")
    assert pod("late")["spec"]["nodeName"]
    assert pod("late")["status"]["phase"] == "Pending"
    for name in ("clinging", "moody"):
        control_plane.request("DELETE", f"{path}/{name}")
    control_plane.wait_for(lambda: len(pods(control_plane, namespace)) == 2, "one pod to go")
    assert pod("clinging")["metadata"]["deletionTimestamp"]


def test_removed_nodes_take_their_pods_along(control_plane: ControlPlane, namespace: str) -> None:
    (gone,) = control_plane.add_nodes("1 prefix=gone")
    (stays,) = control_plane.add_nodes("1 prefix=stays")
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(3):
        control_plane.request("POST", path, bare_pod(f"gone-{number}", gone))
    control_plane.request("POST", path, bare_pod("stays", stays))
    control_plane.remove_nodes([gone])
    assert gone not in control_plane.kubectl("get", "nodes", "--output=name")
    assert [pod["metadata"]["name"] for pod in pods(control_plane, namespace)] == ["stays"]
    control_plane.remove_nodes([stays, "never-was"])
