"""The kinds that the chart brings along: an upgrade reaches them, and they outlive it with everything of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.installed import helm_on, installation
from tests.chart.test_chart_equals_manifests import CHART
from tests.kinds import DEFINITIONS, answers
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.process

GROUPS = f"{DEFINITIONS}/nodegroups.autoscaler.vpsie.com"
OURS = tuple(
    f"{DEFINITIONS}/{name}"
    for name in ("nodegroups.autoscaler.vpsie.com", "vpsienodes.autoscaler.vpsie.com", "wekacontainers.weka.weka.io")
)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Without these kinds before, and after."""
    control_plane.wait_for(lambda: not any(answers(control_plane, path) for path in OURS), "the names to be free")
    yield control_plane
    for path in OURS:
        if answers(control_plane, path):
            control_plane.request("DELETE", path)
    control_plane.wait_for(lambda: not any(answers(control_plane, path) for path in OURS), "the kinds to be gone")


def test_upgraded_and_kept(helm: Path, cluster: ControlPlane, namespace: str):
    values = ("crds.install=true", "config.webhook.mode=off")
    chosen = [word for value in values for word in ("--set", value)]

    def columns() -> list[str]:
        found: list[dict[str, Any]] = cluster.request("GET", GROUPS)["spec"]["versions"][0]["additionalPrinterColumns"]
        return [one["name"] for one in found]

    with installation(helm, cluster, namespace, *values):
        as_made = columns()
        older = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]
        cluster.request("PATCH", GROUPS, older, content_type="application/json-patch+json")
        assert columns() != as_made
        helm_on(
            helm, cluster, "upgrade", "plimsoll", str(CHART), "--namespace", namespace, "--force-conflicts", *chosen
        )
        assert columns() == as_made
    assert all(answers(cluster, path) for path in OURS), "kept, with every object of theirs"
