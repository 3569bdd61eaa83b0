"""The cluster and the files that our pages speak of, for commands to run on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.allocation.build import container_body, drive_annotations
from tests.cli.command import PLIMSOLL, environment, plimsoll
from tests.docs.written import ROOT

_ANNOTATIONS = {
    "spotalis.io/enabled": "true",
    "spotalis.io/min-on-demand": "1",
    "spotalis.io/spot-percentage": "50%",
    "pod-deletion-cost.lablabs.io/enabled": "true",
}


def deployment(namespace: str) -> dict[str, Any]:
    containers = [{"name": "web", "image": "example/web", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "annotations": _ANNOTATIONS},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
        },
    }


def node(name: str, number: int, **annotations: str) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": "abc"[number % 3],
        "karpenter.sh/capacity-type": ("spot", "on-demand")[number % 2],
    }
    size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"capacity": size, "allocatable": size},
    }


def kind_of_others(group: str, kind: str) -> dict[str, Any]:
    """A kind that another operator brings along, and that some of our manifests are of."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


OBJECTS = (
    *(node(f"worker-{number}", number) for number in range(1, 9)),
    node("storage-3", 1, **drive_annotations(["S1", "S2", "S3"])),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    *(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("capacity", "plimsoll-system", "spotalis-system", "weka-operator-system")
    ),
    deployment("default"),
    deployment("shop"),
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "plimsoll", "namespace": "default"},
        "data": {"plimsoll.yaml": "controllers: {reconcileInterval: 2m}\n"},
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "spotalis-config", "namespace": "spotalis-system"},
        "data": {"config.yaml": "operator: {readOnlyMode: true}\n"},
    },
    kind_of_others("monitoring.coreos.com", "ServiceMonitor"),
    kind_of_others("monitoring.coreos.com", "PrometheusRule"),
)
CUSTOM = (
    container_body("backend-0", node="storage-3", drives=2, namespace="default"),
    {
        "apiVersion": "autoscaler.vpsie.com/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {
            "provider": "kwok", "minNodes": 0, "maxNodes": 3, "datacenterID": "d", "resourceIdentifier": "r",
            "project": "p", "kubernetesVersion": "v1.36.3", "offeringIDs": ["small"],
        },
    },
)  # fmt: skip


class Stage:
    def __init__(self, directory: Path, kubectl: Path, helm: Path) -> None:
        self.directory = directory
        programs = directory / "bin"
        programs.mkdir()
        for name, target in {
            "plimsoll": PLIMSOLL,
            "kubectl-plimsoll": PLIMSOLL.parent / "kubectl-plimsoll",
            "kubectl": kubectl,
            "helm": helm,
        }.items():
            (programs / name).symlink_to(target)
        (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (programs / "python").chmod(0o755)
        # The same code as the program of its own name.
        (programs / "kustomize").write_text('#!/bin/sh\nshift\nexec kubectl kustomize "$@"\n')
        (programs / "kustomize").chmod(0o755)
        (directory / ".venv").mkdir()
        (directory / ".venv/bin").symlink_to(Path(sys.executable).parent)
        (directory / "charts").symlink_to(ROOT / "charts")
        (directory / "examples").symlink_to(ROOT / "examples")
        self.kubeconfig = directory / "of-the-stage"  # pages make one called kubeconfig
        self.variables: Mapping[str, str] = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(directory),
            "PLIMSOLL_WEB_PORT": "0",
        }
        self._files()
        arguments = [str(PLIMSOLL), "cluster", "--kubeconfig", str(self.kubeconfig), "--file", "objects.yaml"]
        self._cluster = subprocess.Popen(
            [*arguments, "--speed", "20"], cwd=directory, stdout=subprocess.PIPE, text=True, env=environment()
        )
        self._prepare()

    def stop(self) -> None:
        self._cluster.kill()
        self._cluster.communicate()

    def run(self, command: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.directory,
            env=environment(**self.variables),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def start(self, command: str, output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as file:
            return subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.directory,
                env=environment(**self.variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def pod_of_shop(self) -> str:
        found = self.run("kubectl get pods -n shop -l app=web -o jsonpath='{.items[0].metadata.name}'")
        assert found.stdout, found.stderr
        return found.stdout

    def _files(self) -> None:
        web = yaml.safe_dump(deployment("default"))
        (self.directory / "deploy").mkdir()
        for file in ("web.yaml", "deploy/web.yaml", "workloads.yaml"):
            (self.directory / file).write_text(web)
        (self.directory / "kustomization.yaml").write_text("resources: [web.yaml]\n")
        (self.directory / "plimsoll.yaml").write_text("controllers: {reconcileInterval: 2m}\n")
        (self.directory / "spotalis.yaml").write_text("operator: {readOnlyMode: true, namespace: spotalis-system}\n")
        (self.directory / "tighter.yaml").write_text("placement: {maxMigrations: 1}\n")
        (self.directory / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))

    def _prepare(self) -> None:
        assert self._cluster.stdout is not None
        assert self._cluster.stdout.readline().startswith("The cluster is at "), "the cluster did not start"
        kubeconfig = yaml.safe_load(self.kubeconfig.read_text())
        (context,) = kubeconfig["contexts"]
        kubeconfig["contexts"].append({**context, "name": "staging"})
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
        (self.directory / "crds.yaml").write_text(plimsoll("manifests", "crds").stdout)
        (self.directory / "custom.json").write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": list(CUSTOM)})
        )
        for command in (
            "kubectl apply --server-side -f crds.yaml",
            "kubectl apply --server-side --validate=false -f custom.json",
            "kubectl wait --timeout=200s --for=condition=Available deployment/web -n shop",
            "plimsoll snapshot -o now.yaml",
        ):
            done = self.run(command)
            assert done.returncode == 0, done.stderr
        for copy in ("cluster.yaml", "snapshot.yaml"):
            shutil.copy(self.directory / "now.yaml", self.directory / copy)
