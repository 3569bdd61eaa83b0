"""The real kubectl against the embedded cluster: what people type, and what they are shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually
from tools.controlplane.binaries import ControlPlaneUnavailableError, find_binaries

pytestmark = pytest.mark.process

_WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example.org/none:1"}]},
        },
    },
}


class Kubectl:
    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self.kubeconfig = directory / "kubeconfig"
        # kubectl keeps what it has discovered in the home directory.
        self._environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(directory)}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self._program, *arguments, env=self._environment, cwd=self._directory,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        process = await self.start(*arguments)
        output, _ = await process.communicate()
        text = output.decode()
        assert process.returncode == code, f"kubectl {' '.join(arguments)}: {process.returncode}: {text}"
        return text

    def file(self, document: object) -> str:
        path = self._directory / "object.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    try:
        program = find_binaries(may_build=False).path("kubectl")
    except ControlPlaneUnavailableError as error:
        pytest.skip(str(error))
    async with (
        EmbeddedCluster(RealClock(), times=ClusterTimings(heartbeat=10.0)) as cluster,
        HttpServer(cluster.api) as server,
    ):
        for zone in "abc":
            await cluster.add_nodes(f"1 zone={zone} class=spot")
        made = Kubectl(program, tmp_path)
        server.write_kubeconfig(made.kubeconfig)
        yield made


async def test_what_people_do(kubectl: Kubectl) -> None:
    nodes = (await kubectl("get", "nodes")).splitlines()
    assert nodes[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [line.split()[1] for line in nodes[1:]] == ["Ready"] * 3
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", kubectl.file(_WEB))
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    wide = (await kubectl("get", "pods", "-o", "wide")).splitlines()
    assert wide[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert [line.split()[1:3] for line in wide[1:]] == [["1/1", "Running"]] * 3
    shown = yaml.safe_load(await kubectl("get", "deployment", "web", "-o", "yaml"))
    assert shown["spec"]["replicas"] == 3
    assert shown["apiVersion"] == "apps/v1"

    assert "scaled" in await kubectl("scale", "deployment/web", "--replicas=5")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "5/5" in await kubectl("get", "deployments")
    await kubectl("annotate", "deployment/web", "example.org/note=hello")
    described = await kubectl("describe", "deployment", "web")
    assert "example.org/note: hello" in described
    assert "5 desired | 5 updated | 5 total | 5 available | 0 unavailable" in described
    assert "ScalingReplicaSet" in described
    conflict = await kubectl("apply", "--server-side", "-f", kubectl.file(_WEB), code=1)
    assert "conflict with" in conflict
    assert ".spec.replicas" in conflict

    node = nodes[1].split()[0]
    await kubectl("cordon", node)
    assert "Ready,SchedulingDisabled" in await kubectl("get", "node", node)
    assert "node.kubernetes.io/unschedulable:NoSchedule" in await kubectl("describe", "node", node)
    described = await kubectl("describe", "node", node)
    assert "HolderIdentity:  " + node in described
    assert "drained" in await kubectl("drain", node, "--timeout=60s")
    assert node not in await kubectl("get", "pods", "-o", "wide")
    await kubectl("uncordon", node)

    assert 'deployment.apps "web" deleted' in await kubectl("delete", "deployment", "web")
    await eventually(lambda: _is(kubectl, "No resources found", "get", "pods"), "no pods are left")
    assert "NotFound" in await kubectl("get", "deployment", "web", code=1)


async def test_rollouts_go_forth_and_back(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    await kubectl("set", "image", "deployment/web", "web=web:2")
    await kubectl("rollout", "restart", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    history = (await kubectl("rollout", "history", "deployment/web")).splitlines()
    assert [line.split()[0] for line in history[2:] if line] == ["1", "2", "3"]
    assert "rolled back" in await kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "web:1" in await kubectl("get", "deployment", "web", "-o", "wide")
    refused = await kubectl("create", "deployment", "web", "--image=web:1", code=1)
    assert refused == 'error: failed to create deployment: deployments.apps "web" already exists\n'


async def test_what_is_used_and_what_one_may(kubectl: Kubectl) -> None:
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "example.org/none:1", "resources": requests}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}, "spec": {"containers": [container]}}
    await kubectl("apply", "-f", kubectl.file(pod))
    await kubectl("wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
    (shown,) = (await kubectl("top", "pods", "--no-headers")).splitlines()
    assert shown.split() == ["busy", "500m", "512Mi"]
    used = [line.split()[1:] for line in (await kubectl("top", "nodes", "--no-headers")).splitlines()]
    assert sorted(used) == [["0m", "0%", "0Mi", "0%"]] * 2 + [["500m", "12%", "512Mi", "3%"]]
    assert await kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert "system:embedded" in await kubectl("auth", "whoami")
    listed = await kubectl("api-resources", "--namespaced=false")
    assert {"nodes", "customresourcedefinitions"} <= {line.split()[0] for line in listed.splitlines()}


async def test_node_groups(kubectl: Kubectl) -> None:
    for definition in node_group_crds():
        await kubectl("apply", "--server-side", "-f", kubectl.file(definition))
    spec = {
        "minNodes": 1, "maxNodes": 5, "datacenterID": "d", "resourceIdentifier": "r", "project": "p",
        "offeringIDs": ["small"], "kubernetesVersion": "v1.36.3",
    }  # fmt: skip
    group = {"apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "metadata": {"name": "workers"}}
    await kubectl("apply", "-f", kubectl.file({**group, "spec": spec}))
    assert "scaled" in await kubectl("scale", "nodegroup/workers", "--replicas=3")
    assert await kubectl("get", "ng", "workers", "-o", "jsonpath={.spec.desiredNodes}") == "3"
    assert (await kubectl("get", "ng")).split()[:6] == ["NAME", "MIN", "MAX", "DESIRED", "CURRENT", "READY"]
    assert "Max Nodes:" in await kubectl("describe", "nodegroup", "workers")
    assert "the group never grows beyond it." in await kubectl("explain", "nodegroup.spec.maxNodes")


async def test_what_cannot_be_read_is_refused_by_name(kubectl: Kubectl) -> None:
    refused = await kubectl("create", "pdb", "web", "--selector=app=web", "--max-unavailable=1", code=1)
    assert "a PodDisruptionBudget is read as JSON only" in refused


async def test_watching_sees_pods_come(kubectl: Kubectl) -> None:
    watching = await kubectl.start("get", "pods", "-w")
    try:
        await kubectl("apply", "-f", kubectl.file(_WEB))
        assert watching.stdout is not None
        seen = ""
        async with asyncio.timeout(60):
            while seen.count("Running") < 3:
                seen += (await watching.stdout.readline()).decode()
        assert seen.count("NAME") == 1
    finally:
        watching.kill()
        await watching.wait()


async def test_a_client_side_apply_changes_and_takes_away(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.file({**_WEB, "metadata": {"name": "web", "labels": {"a": "1", "b": "1"}}}))
    await kubectl("apply", "-f", kubectl.file({**_WEB, "metadata": {"name": "web", "labels": {"a": "2"}}}))
    shown = yaml.safe_load(await kubectl("get", "deployment", "web", "-o", "yaml"))
    assert shown["metadata"]["labels"] == {"a": "2"}
    assert "unchanged" in await kubectl(
        "apply", "-f", kubectl.file({**_WEB, "metadata": {"name": "web", "labels": {"a": "2"}}})
    )


async def _is(kubectl: Kubectl, text: str, *arguments: str) -> bool:
    return text in await kubectl(*arguments)


async def test_logs_and_exec_say_that_nothing_runs(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file(_WEB))
    await kubectl("wait", "--for=condition=available", "deployment/web", "--timeout=30s")
    pod = (await kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.name}")).strip()
    assert "embedded cluster: container main does not run" in await kubectl("logs", pod)
    assert "pods/exec is not supported: this is an embedded cluster" in await kubectl("exec", pod, "--", "ls", code=1)
