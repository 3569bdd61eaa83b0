"""The objects of the chart on a real control plane: admitted without warnings, spread, protected and reachable."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.test_chart_equals_manifests import rendered
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.process

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}


@pytest.fixture
def namespace(control_plane: ControlPlane, namespace: str) -> str:
    """One that admits nothing but pods without any privilege, and warns about whoever would make others."""
    body = {"metadata": {"labels": RESTRICTED}}
    path = f"/api/v1/namespaces/{namespace}"
    control_plane.request("PATCH", path, body, content_type="application/merge-patch+json")
    return namespace


def apply(control_plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """A warning of the API server is a failure."""
    text = yaml.safe_dump_all(objects)
    control_plane.kubectl("apply", "--server-side", "--warnings-as-errors", "-f", "-", stdin=text)


def test_it_runs_restricted_spread_and_guarded(
    helm: Path, control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]]
):
    nodes = kwok_nodes("2 zone=a")
    # Without the webhook's configuration: nobody of these pods would answer, and all others' would wait for it.
    objects = [
        one
        for one in rendered(helm, "--set", "config.dashboard.host=*", "--set", "config.dashboard.access=token",
                            namespace=namespace)
        if one["kind"] != "MutatingWebhookConfiguration"
    ]  # fmt: skip
    try:
        apply(control_plane, objects)

        def pods() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
            return found

        def ready() -> bool:
            conditions = [c for pod in pods() for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"]
            return [c["status"] for c in conditions] == ["True", "True"]

        control_plane.wait_for(ready, "two ready pods")
        assert {pod["spec"]["nodeName"] for pod in pods()} == set(nodes), "one on each node"
        assert {pod["spec"]["priority"] for pod in pods()} == {1_000_000_000}

        budget = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/plimsoll"

        def one_may_go() -> bool:
            status = control_plane.request("GET", budget).get("status", {})
            return (status.get("expectedPods"), status.get("disruptionsAllowed")) == (2, 1)

        control_plane.wait_for(one_may_go, "a budget that counts both and lets one go")
        for service in (one for one in objects if one["kind"] == "Service"):
            _leads_to(
                control_plane, namespace, service["metadata"]["name"], {pod["metadata"]["name"] for pod in pods()}
            )
        (policy,) = (one for one in objects if one["kind"] == "NetworkPolicy")
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        (container,) = pods()[0]["spec"]["containers"]
        assert opened == {port["name"] for port in container["ports"]}, "the ports that the pod has, and no other"
        selected = control_plane.kubectl(
            "get", "pods", "-n", namespace, "-o", "name",
            "-l", ",".join(f"{k}={v}" for k, v in policy["spec"]["podSelector"]["matchLabels"].items()),
        ).split()  # fmt: skip
        assert len(selected) == 2
    finally:
        outside = [one for one in objects if one["metadata"].get("namespace") != namespace]
        control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(outside))


def _leads_to(control_plane: ControlPlane, namespace: str, service: str, pods: set[str]) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    query = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"

    def led() -> bool:
        slices = control_plane.request("GET", f"{path}?{query}")["items"]
        ends = [end for one in slices for end in one.get("endpoints") or () if one.get("ports")]
        return {end["targetRef"]["name"] for end in ends} == pods

    control_plane.wait_for(led, f"the Service {service} to lead to every pod")


def test_a_privilege_too_much_would_be_noticed(helm: Path, control_plane: ControlPlane, namespace: str):
    (deployment,) = (one for one in rendered(helm, namespace=namespace) if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply(control_plane, [deployment])
    assert 'would violate PodSecurity "restricted' in refused.value.stderr
