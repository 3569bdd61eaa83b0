"""Components that stop, start, pause, or are left out."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.controlplane.asking import bare_pod, pods, ready
from tests.realcluster import StartControlPlane
from tools.controlplane.cluster import ControlPlane


def test_the_api_server_comes_back_on_its_port_with_its_data(api_server: ControlPlane) -> None:
    api_server.add_nodes("1 prefix=lasting")
    server, first = api_server.server, api_server.process("apiserver").pid
    api_server.restart_component("apiserver", grace_seconds=1.0)
    assert api_server.server == server
    assert api_server.process("apiserver").pid != first
    assert api_server.request("GET", "/api/v1/nodes/lasting-0")
    api_server.stop_component("apiserver")
    with pytest.raises(OSError, match="refused"):
        api_server.request("GET", "/api/v1/nodes/lasting-0")
    api_server.start_component("apiserver")
    assert api_server.request("GET", "/api/v1/nodes/lasting-0")


def test_a_paused_api_server_answers_nothing_until_it_is_resumed(api_server: ControlPlane) -> None:
    answered = threading.Event()
    api_server.pause("apiserver")

    def ask() -> None:
        api_server.request("GET", "/api/v1/nodes")
        answered.set()

    question = threading.Thread(target=ask)
    question.start()
    assert not answered.wait(0.5)
    api_server.resume("apiserver")
    assert answered.wait(60)
    question.join()


def test_components_can_be_left_out(api_server: ControlPlane) -> None:
    assert [path.stem for path in sorted(api_server.logs.iterdir())] == ["apiserver", "etcd"]
    (name,) = api_server.add_nodes("1 prefix=unattended")
    assert "conditions" not in api_server.request("GET", f"/api/v1/nodes/{name}")["status"]
    with pytest.raises(RuntimeError, match="cannot mint a token: the component 'tokens' is not running"):
        api_server.token_for("alice")
    with pytest.raises(ValueError, match="no component 'scheduler': expected one of etcd, apiserver"):
        api_server.process("scheduler")


def test_kwok_takes_its_nodes_over_again_after_a_restart(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(nodes=["1"])
    cluster.restart_component("kwok")
    namespace = cluster.add_namespace()
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", bare_pod("after"))
    cluster.wait_for(lambda: all(map(ready, pods(cluster, namespace))), "the pod to become ready", timeout=15)


def test_extra_flags_overrule_ours(api_server: ControlPlane, control_plane: ControlPlane) -> None:
    """Such as one that leaves new nodes without a taint."""
    ours = next(word for word in control_plane.process("apiserver").command if "--disable-admission-plugins" in word)
    assert ours == "--disable-admission-plugins=ServiceAccount"
    (name,) = api_server.add_nodes("1 prefix=untainted")
    assert not api_server.request("GET", f"/api/v1/nodes/{name}")["spec"].get("taints")


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
