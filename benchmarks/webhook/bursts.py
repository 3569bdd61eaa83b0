"""W2: bursts of pods from one Deployment on a real control plane, and how many of them got which class."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, progress
from tools.controlplane.cluster import ControlPlane

_HOME = "plimsoll-system"
_CLASS = "plimsoll.dev/placement-class"
_SHARE = 70


def bursts() -> list[Figure]:
    """The operator runs as a process of its own, with its defaults."""
    with ControlPlane.start() as cluster, tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as name:
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": _HOME}})
        log = Path(name) / "log"
        command = [
            str(Path(sys.executable).parent / "plimsoll"), "run",
            "--kubeconfig", str(cluster.kubeconfig), "--controllers", "placement",
            "--set", "web.port=0", "--set", "webhook.mode=url", "--set", "webhook.port=0", "--set", "dashboard.port=0",
            "--log-format", "json",
        ]  # fmt: skip
        with log.open("wb") as sink:
            environment = {key: value for key, value in os.environ.items() if not key.startswith("PLIMSOLL_")}
            operator = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink, env=environment)
        try:
            _wait(lambda: b'"webhook registered"' in log.read_bytes(), operator)
            time.sleep(2)  # until the API server has heard of the configuration, too
            found = [figure for size in (100, 1000) for figure in asyncio.run(_burst(cluster, size))]
        finally:
            operator.send_signal(signal.SIGTERM)
            operator.wait(30)
    return found


async def _burst(cluster: ControlPlane, size: int) -> list[Figure]:
    progress(f"a burst of {size} pods, {_SHARE} % of them spot")
    namespace, labels = cluster.add_namespace(), {"app": "burst"}
    body = {
        "metadata": {
            "name": "burst",
            "annotations": {"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": f"{_SHARE}%"},
        },
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
        },
    }
    began = time.monotonic()
    cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    pods: list[Any] = []
    while len(pods) < size:
        if time.monotonic() - began > 300:
            raise TimeoutError(f"{len(pods)} of {size} pods after five minutes")
        await asyncio.sleep(0.5)
        pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    seconds = time.monotonic() - began
    split = Counter(pod["metadata"].get("annotations", {}).get(_CLASS, "unmarked") for pod in pods)
    cluster.remove_namespace(namespace)
    expected = size * _SHARE // 100
    return [
        Figure(f"burst of {size}: on spot", "pods", split["spot"], at_least=expected, at_most=expected),
        Figure(f"burst of {size}: not asked about in time", "pods", split["unmarked"]),
        Figure(f"burst of {size}: created in", "s", seconds),
    ]


def _wait(condition: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the operator ended, or did not register its webhook")
        time.sleep(0.1)
