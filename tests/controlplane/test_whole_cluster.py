"""The control plane as a whole: workloads run, namespaces go, several stand side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests import kinds
from tests.controlplane.asking import bare_pod, get, pods, ready, status_of
from tests.realcluster import StartControlPlane
from tools.controlplane.api import ApiError, answers
from tools.controlplane.cluster import ControlPlane

WEB = ["create", "deployment", "web", "--image=web", "--replicas=2"]
MARKS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "marks.whole.example.com"},
    "spec": {
        "group": "whole.example.com",
        "scope": "Namespaced",
        "names": {"plural": "marks", "singular": "mark", "kind": "Mark", "listKind": "MarkList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def test_it_is_the_version_that_was_asked_for(control_plane: ControlPlane) -> None:
    version = get(control_plane, "/version", control_plane.admin_token)
    assert version["gitVersion"] == f"v{control_plane.binaries.versions.kubernetes}"
    assert f"{version['major']}.{version['minor']}" == control_plane.binaries.versions.kubernetes_minor
    assert f"Server Version: {version['gitVersion']}" in control_plane.kubectl("version")


def test_a_deployment_is_created_scheduled_and_ready(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    names = kwok_nodes("2 zone=a")
    control_plane.kubectl(*WEB, f"--namespace={namespace}")
    control_plane.kubectl("rollout", "status", "deployment/web", f"--namespace={namespace}")
    running = pods(control_plane, namespace)
    assert len(running) == 2
    assert {pod["spec"]["nodeName"] for pod in running} == set(names)
    assert all(ready(pod) and pod["status"]["podIP"] and pod["status"]["hostIP"] for pod in running)


def test_a_job_completes(control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]) -> None:
    kwok_nodes("1")
    control_plane.kubectl("create", "job", "once", "--image=once", f"--namespace={namespace}")
    control_plane.kubectl("wait", "--for=condition=Complete", "job/once", f"--namespace={namespace}", "--timeout=30s")


def test_a_namespace_is_closed_and_its_pods_go_even_where_no_node_lets_them(
    control_plane: ControlPlane, kwok_nodes: Callable[[str], list[str]]
) -> None:
    kwok_nodes("1")
    name = control_plane.add_namespace(labels={"team": "blue"})
    assert control_plane.request("GET", f"/api/v1/namespaces/{name}")["metadata"]["labels"]["team"] == "blue"
    control_plane.kubectl(*WEB, f"--namespace={name}")
    control_plane.kubectl("rollout", "status", "deployment/web", f"--namespace={name}")
    control_plane.request("POST", f"/api/v1/namespaces/{name}/pods", bare_pod("stuck", "no-such-node"))
    control_plane.remove_namespace(name)
    control_plane.wait_for(lambda: not pods(control_plane, name), "the pods to vanish", timeout=10)
    for kind in ("deployments", "replicasets", "configmaps"):
        assert not control_plane.kubectl("get", kind, f"--namespace={name}", "--output=name"), kind
    with pytest.raises(ApiError, match="being terminated"):
        control_plane.request("POST", f"/api/v1/namespaces/{name}/pods", bare_pod("late", "no-such-node"))


def test_what_others_have_defined_goes_with_a_namespace_and_a_kind_that_goes_is_no_trouble(
    control_plane: ControlPlane,
) -> None:
    definition = f"{kinds.DEFINITIONS}/{MARKS['metadata']['name']}"
    name = control_plane.add_namespace()
    for _ in range(2):
        kinds.install(control_plane, [MARKS])
        mark = {"apiVersion": "whole.example.com/v1", "kind": "Mark", "metadata": {"name": "one"}}
        path = f"/apis/whole.example.com/v1/namespaces/{name}/marks"
        control_plane.request("POST", path, mark)
        control_plane.remove_namespace(name)
        assert control_plane.request("GET", path)["items"] == []
        control_plane.request("DELETE", definition)
        name = control_plane.add_namespace()
        while kinds.answers(control_plane, definition) or kinds.answers(control_plane, "/apis/whole.example.com"):
            control_plane.remove_namespace(
                name
            )  # it takes the API server a moment to forget the kind, and then its group
            name = control_plane.add_namespace()
    control_plane.remove_namespace(name)


def test_several_run_at_once_start_in_seconds_and_know_nothing_of_each_other(
    control_plane: ControlPlane, new_control_plane: StartControlPlane
) -> None:
    started = time.monotonic()
    other = new_control_plane()
    # About 3 s on two idle cores; the margin is for a busy machine.
    assert time.monotonic() - started < 20
    assert other.server != control_plane.server
    other.add_nodes("1 prefix=elsewhere")
    assert "elsewhere-0" not in control_plane.kubectl("get", "nodes", "--output=name")
    assert status_of(other, "/api/v1/nodes", control_plane.admin_token) == 401
    # Nor would one take the other's server for its own, were they ever to meet on one port.
    assert answers(f"{other.server}/readyz", other.ca_file)
    assert not answers(f"{other.server}/readyz", control_plane.ca_file)
