"""What the operator answers to a scrape, judged by promtool."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from plimsoll.controllers.deletion_cost.spec import ENABLED as COSTS_ENABLED
from plimsoll.controllers.placement.spec import ENABLED, SPOT_PERCENTAGE
from tests.cli.running import running
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane

# Names that existing dashboards ask for, and would not be ours to choose.
INHERITED = ("spotalis_", "vpsie_autoscaler_")


async def test_a_scrape_has_no_fault(
    control_plane: ControlPlane, namespace: str, kwok_nodes: Callable[[str], list[str]], promtool: Path, tmp_path: Path
):
    kwok_nodes("1 zone=a")
    home = control_plane.add_namespace("home")
    labels = {"app": "web"}
    body = {
        "metadata": {"name": "web", "annotations": {COSTS_ENABLED: "true", ENABLED: "true", SPOT_PERCENTAGE: "50%"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
        },
    }
    control_plane.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    everything = ("--controllers", "placement,deletion-cost,nodegroups,allocation")
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--set", f"operator.namespace={home}", *everything)
    async with running(tmp_path, *arguments) as operator:

        async def scraped() -> str:
            text = (await operator.answer("/metrics"))[1]
            shown = ("plimsoll_leading 1", "plimsoll_deletion_cost_covered_pods{", "spotalis_workload_replicas{")
            return text if all(one in text for one in shown) else ""

        text: str = await eventually(scraped, "metrics of both controllers")
    control_plane.remove_namespace(home)
    process = await asyncio.create_subprocess_exec(
        str(promtool), "check", "metrics",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    told, _ = await process.communicate(text.encode())
    faults = [line for line in told.decode().splitlines() if not line.startswith(INHERITED)]
    assert faults == []
    assert re.search(r"^# TYPE plimsoll_decisions_total counter$", text, re.MULTILINE)
