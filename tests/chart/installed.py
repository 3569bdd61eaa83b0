"""The chart on a real control plane, installed by Helm as a person does it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chart.test_chart_equals_manifests import CHART
from tools.controlplane.cluster import ControlPlane


class Refused(AssertionError):
    """Helm did not do it; its words."""


def helm_on(helm: Path, cluster: ControlPlane, *arguments: str) -> str:
    done = subprocess.run(
        [str(helm), "--kubeconfig", str(cluster.kubeconfig), *arguments],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout


@contextmanager
def installation(
    helm: Path, cluster: ControlPlane, namespace: str, *values: str, release: str = "plimsoll"
) -> Iterator[str]:
    """What Helm has applied, until it is uninstalled."""
    chosen = [word for value in values for word in ("--set", value)]
    helm_on(helm, cluster, "install", release, str(CHART), "--namespace", namespace, *chosen)
    try:
        yield helm_on(helm, cluster, "get", "manifest", release, "--namespace", namespace)
    finally:
        helm_on(helm, cluster, "uninstall", release, "--namespace", namespace, "--ignore-not-found")
