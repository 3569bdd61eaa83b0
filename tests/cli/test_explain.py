"""`plimsoll explain`: the operator's own decision, for people and programs, from a cluster or from files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.clock import RealClock
from plimsoll.exit_codes import ExitCode
from plimsoll.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.sim.api import kinds
from plimsoll.sim.cluster import Cluster
from plimsoll.sim.http import HttpServer
from tests.cli.command import PLIMSOLL, environment, plimsoll
from tests.eventually import eventually


def web(kind: str = "Deployment", **annotations: str) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.org/none:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"replicas": 10, "selector": {"matchLabels": labels}, "template": template},
    }


ASKING = {ENABLED: "true", SPOT_PERCENTAGE: "60%", MIN_ON_DEMAND: "2"}


def write(directory: Path, *documents: dict[str, Any]) -> str:
    path = directory / "objects.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


async def test_of_a_cluster(tmp_path: Path) -> None:
    """Six of ten should be on spot, where there is none: nothing was placed, for no webhook was asked."""
    async with Cluster(RealClock()) as cluster, HttpServer(cluster.api) as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        await cluster.add_nodes("3 zone=a class=on-demand")
        await cluster.create(kinds.DEPLOYMENTS, web(**ASKING))

        def is_ready() -> bool:
            found = cluster.api.objects.get(kinds.DEPLOYMENTS, "default", "web")
            return bool(found["status"].get("readyReplicas") == 10)

        await eventually(is_ready, "ten ready pods")
        process = await asyncio.create_subprocess_exec(
            str(PLIMSOLL), "explain", "deployment/web", "--kubeconfig", str(kubeconfig), "-o", "json",
            stdout=asyncio.subprocess.PIPE, env=environment(),
        )  # fmt: skip
        output, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(output)
    assert told["target"] == {"spot": 6, "onDemand": 4}
    assert told["current"] == {"spot": 0, "onDemand": 10}
    assert told["action"] == "migrate-to-spot"
    assert len(told["moving"]) == 6
    assert [one["controller"] for one in told["blockers"]] == ["placement"], "there is no spot node to move to"
    assert told["errors"] == []
    assert told["decisions"]["placement"]["actions"] == []
    assert told["decisions"]["deletion-cost"]["reason"]["code"] == "NotEnabled"


def test_of_files(tmp_path: Path) -> None:
    result = plimsoll("explain", "deploy/web", "-f", write(tmp_path, web(**ASKING)), "-o", "yaml")
    told = yaml.safe_load(result.stdout)
    assert result.exit_code == 0
    assert told["target"] == {"spot": 6, "onDemand": 4}
    assert told["current"] == {"spot": 0, "onDemand": 0}
    assert told["action"] == "scale-up-on-demand"


def test_every_reason_why_a_policy_is_invalid(tmp_path: Path) -> None:
    wrong = web(**{ENABLED: "true", SPOT_PERCENTAGE: "170%", MIN_ON_DEMAND: "few"})
    text = plimsoll("explain", "deployment/web", "-f", write(tmp_path, wrong)).stdout
    assert text.startswith("Deployment default/web\n")
    assert '"170%": must be a whole number from 0 to 100 followed by %' in text
    assert '"few": must be a whole number from 0 to 999' in text


def test_a_stateful_set_is_placed_and_not_ordered(tmp_path: Path) -> None:
    result = plimsoll("explain", "sts/web", "-f", write(tmp_path, web("StatefulSet", **ASKING)), "-o", "json")
    assert json.loads(result.stdout)["decisions"].keys() == {"placement"}


def test_in_a_namespace_of_its_own(tmp_path: Path) -> None:
    elsewhere = web(**ASKING)
    elsewhere["metadata"]["namespace"] = "shop"
    file = write(tmp_path, elsewhere)
    assert plimsoll("explain", "deployment/web", "-n", "shop", "-f", file).exit_code == 0
    missing = plimsoll("explain", "deployment/web", "-f", file)
    assert missing.exit_code == 1
    assert "there is no Deployment default/web" in missing.stderr


@pytest.mark.parametrize("what", ["web", "job/web", "deployment/", "/web"])
def test_what_is_no_workload(what: str) -> None:
    result = plimsoll("explain", what)
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert "write it like deployment/web" in result.stderr


def test_a_file_that_is_none(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [")
    for name, hint in ((str(bad), "this is no YAML"), (str(tmp_path / "none.yaml"), "cannot be read")):
        result = plimsoll("explain", "deployment/web", "-f", name)
        assert result.exit_code == 1
        assert f"{name}: {hint}" in result.stderr
