"""Files that cannot be followed are refused in one sentence that says where and what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import plimsoll

NODES = ("--nodes", "1 zone=a class=spot")
GROUP = """
apiVersion: autoscaler.vpsie.com/v1alpha1
kind: NodeGroup
metadata: {name: workers}
spec: {minNodes: 0, maxNodes: 3, datacenterID: dc, resourceIdentifier: c, project: p, offeringIDs: [huge],
       kubernetesVersion: v1.36.3}
"""


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--scenario", "change: []", '"change" is none of changes, events, curves'),
        ("--scenario", "- 1", "expected a mapping"),
        ("--scenario", "changes: 5", "changes is 5; expected a list"),
        ("--scenario", "curves: [{workload: deployment/web, low: 4}]", "curve 1: expected workload, low, high"),
        ("--scenario", "curves: [{workload: deployment/web, low: 4, high: 2}]", "low at most high"),
        (
            "--scenario",
            "curves: [{workload: deployment/web, low: 1, high: 2, period: 0s}]",
            "expected a duration above 0",
        ),
        ("--scenario", "curves: [{workload: web, low: 1, high: 2}]", "write it like deployment/web:replicas=40@10m"),
        ("--scenario", "{", "expected"),
        ("-f", "kind: 5", "not a Kubernetes object"),
        (
            "-f",
            "{apiVersion: v2, kind: Thing, metadata: {name: x}}",
            "the embedded cluster does not serve this kind in v2",
        ),
        (
            "-f",
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: many}}",
            "Deployment web: ",
        ),
        ("-f", GROUP, "NodeGroup default/workers: the sizes of offeringIDs huge are unknown"),
        ("--snapshot", "{kind: Snapshot, apiVersion: plimsoll.dev/v1, takenAt: soon, items: []}", "takenAt is 'soon'"),
        ("--snapshot", GROUP, "describe them under providers.kwok.offerings, which lists small, medium, large"),
    ],
)
def test_a_file_that_cannot_be_followed(tmp_path: Path, option: str, text: str, message: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = plimsoll("simulate", *NODES, option, str(file), "--for", "1m")
    assert result.exit_code in (1, 2), result.stdout
    assert message in result.stderr
    assert "Traceback" not in result.stderr
