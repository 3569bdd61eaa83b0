"""A live cluster and the file that was written of it are explained alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.cli.command import plimsoll
from tests.eventually import eventually
from tests.explain.cluster import ANNOTATIONS
from tools.controlplane.cluster import ControlPlane


def web(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "invalid/web", "env": [{"name": "PASSWORD", "value": "hunter2"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": ANNOTATIONS},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def explained(*arguments: str) -> dict[str, Any]:
    result = plimsoll("explain", *arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_live_and_from_the_file(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]], tmp_path: Path
):
    kwok_nodes("2 zone=a class=on-demand")
    kwok_nodes("1 zone=b class=spot")
    control_plane.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(web(4)))

    def ready() -> bool:
        found = control_plane.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
        return bool(found.get("status", {}).get("availableReplicas") == 4)

    asyncio.run(eventually(ready, "four replicas are available"))
    cluster = ("--kubeconfig", str(control_plane.kubeconfig))
    live = explained("deploy/web", "-n", namespace, *cluster)
    assert (live["target"], live["ready"]) == ({"spot": 2, "onDemand": 2}, 4)
    assert sum(live["current"].values()) == 4

    file = tmp_path / "cluster.yaml"
    result = plimsoll("snapshot", "-o", str(file), *cluster)
    assert result.exit_code == 0, result.stderr
    assert " Deployment, " in result.stderr  # how many there are is up to the namespaces that are still leaving, too
    assert "hunter2" not in file.read_text()
    still = explained("deploy/web", "-n", namespace, "-f", str(file))
    for same in ("target", "current", "drift", "action", "ready", "errors", "deletionOrder"):
        assert still[same] == live[same]

    # And from the same file the future: the drift is mended, one pod after the other, and nothing else is touched.
    told = plimsoll("simulate", "--snapshot", str(file), "--for", "30m", "-o", "json")
    assert told.exit_code == 0, told.stdout + told.stderr
    report = json.loads(told.stdout)["defaults"]
    assert report["evictions"] == abs(live["drift"]["spot"])
    assert report["mostEvictionsOfOnePod"] <= 1
    assert min(sample["podsReady"] for sample in report["samples"]) >= report["samples"][0]["podsWanted"] - 1


def test_a_cluster_that_is_not_there(tmp_path: Path):
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {}}], "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }  # fmt: skip
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    result = plimsoll("snapshot", "--kubeconfig", str(file), "--set", "kubernetes.requestTimeout=1s")
    assert result.exit_code == 1
    assert "127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr
