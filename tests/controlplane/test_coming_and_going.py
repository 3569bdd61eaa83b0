"""Components that stop, start, pause, or are left out."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.controlplane.asking import API_SERVER_ALONE, bare_pod, pods, ready
from tests.realcluster import StartControlPlane
from tools.controlplane.cluster import ControlPlane


def test_the_api_server_comes_back_on_its_port_with_its_data(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE)
    cluster.add_nodes("1")
    server, first = cluster.server, cluster.process("apiserver").pid
    cluster.restart_component("apiserver", grace_seconds=1.0)
    assert cluster.server == server
    assert cluster.process("apiserver").pid != first
    assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 1
    cluster.stop_component("apiserver")
    with pytest.raises(OSError, match="refused"):
        cluster.request("GET", "/api/v1/nodes")
    cluster.start_component("apiserver")
    assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 1


def test_a_paused_api_server_answers_nothing_until_it_is_resumed(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE)
    answered = threading.Event()
    cluster.pause("apiserver")

    def ask() -> None:
        cluster.request("GET", "/api/v1/nodes")
        answered.set()

    question = threading.Thread(target=ask)
    question.start()
    assert not answered.wait(0.5)
    cluster.resume("apiserver")
    assert answered.wait(10)
    question.join()


def test_kwok_takes_its_nodes_over_again_after_a_restart(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(nodes=["1"])
    cluster.restart_component("kwok")
    namespace = cluster.add_namespace()
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", bare_pod("after"))
    cluster.wait_for(lambda: all(map(ready, pods(cluster, namespace))), "the pod to become ready", timeout=15)


def test_components_can_be_left_out(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components=API_SERVER_ALONE, nodes=["2"])
    assert [path.stem for path in sorted(cluster.logs.iterdir())] == ["apiserver", "etcd"]
    (node, _) = cluster.request("GET", "/api/v1/nodes")["items"]
    assert "conditions" not in node["status"]
    with pytest.raises(RuntimeError, match="cannot mint a token: the component 'tokens' is not running"):
        cluster.token_for("alice")
    with pytest.raises(ValueError, match="no component 'scheduler': expected one of etcd, apiserver"):
        cluster.process("scheduler")


def test_extra_flags_overrule_ours(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(
        components=API_SERVER_ALONE,
        extra_args={"apiserver": ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]},
    )
    cluster.add_nodes("1 prefix=n")
    assert not cluster.request("GET", "/api/v1/nodes/n-0")["spec"].get("taints")


def test_controllers_are_not_held_back_by_their_own_limits(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    for component in ("controller-manager", "scheduler"):
        assert {"--kube-api-qps=5000", "--kube-api-burst=10000"} <= set(control_plane.process(component).command)
    kwok_nodes("3")
    control_plane.kubectl("create", "deployment", "web", "--image=web", "--replicas=100", f"--namespace={namespace}")
    control_plane.wait_for(lambda: sum(map(ready, pods(control_plane, namespace))) == 100, "100 pods to be ready")


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(
        ValueError, match="'kubelet' is no component of the control plane: expected one of etcd, tokens"
    ):
        ControlPlane.start(components={"kubelet": False})
    with pytest.raises(ValueError, match="without 'etcd' cannot start"):
        ControlPlane.start(components={"etcd": False})
