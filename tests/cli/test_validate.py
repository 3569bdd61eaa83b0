"""`plimsoll validate`: a line for each fault, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import plimsoll

WORKLOAD = """\
apiVersion: apps/v1
kind: {kind}
metadata:
  name: web
  annotations:
{annotations}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: main, image: x}}]}}}}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations:
{annotations}
"""


def written(directory: Path, annotations: dict[str, Any], form: str = WORKLOAD, kind: str = "Deployment") -> Path:
    lines = "\n".join(f'    {key}: "{value}"' for key, value in annotations.items())
    path = directory / "object.yaml"
    path.write_text(form.format(kind=kind, annotations=lines))
    return path


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"spotalis.io/enabled": "yes"}, 'spotalis.io/enabled: "yes": must be "true" or "false"'),
        ({"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "70"}, 'must end with %: write "70%"'),
        (
            {"spotalis.io/enabled": "true", "spotalis.io/min-on-demand": "5"},
            'spotalis.io/min-on-demand is "5" and there are 3',
        ),
        (
            {"spotalis.io/enabled": "true", "spotalis.io/disruption-schedule": "* * * * *"},
            "needs spotalis.io/disruption-duration",
        ),
        ({"spotalis.io/spot-percent": "70%"}, "spotalis.io/spot-percent: there is no such annotation"),
        ({"pod-deletion-cost.lablabs.io/enabled": "on"}, 'enabled is "on": write "true" or "false"'),
        (
            {"pod-deletion-cost.lablabs.io/enabled": "true", "pod-deletion-cost.lablabs.io/type": "luck"},
            'type is "luck", and there is no such type',
        ),
    ],
)
def test_each_fault_has_its_line(tmp_path: Path, annotations: dict[str, str], expected: str) -> None:
    file = written(tmp_path, annotations)
    result = plimsoll("validate", str(file))
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{file}: Deployment default/web: ")
    assert expected in line


def test_a_namespace_can_be_wrong_too(tmp_path: Path) -> None:
    file = written(tmp_path, {"spotalis.io/disruption-duration": "1h"}, NAMESPACE)
    result = plimsoll("validate", str(file))
    assert result.exit_code == 1
    assert f"{file}: Namespace shop: spotalis.io/disruption-duration:" in result.stdout


def test_what_is_right_says_nothing_on_standard_output(tmp_path: Path) -> None:
    file = written(tmp_path, {"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "70%"}, kind="StatefulSet")
    result = plimsoll("validate", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 object checked, nothing is wrong" in result.stderr


def test_the_configuration_decides_what_is_a_fault(tmp_path: Path) -> None:
    file = written(tmp_path, {"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "70"})
    assert plimsoll("validate", str(file), "--set", "placement.percentSign=optional").exit_code == 0


def test_mending_changes_that_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    text = WORKLOAD.format(
        kind="Deployment", annotations="    spotalis.io/enabled: 'true'\n    spotalis.io/spot-percentage: {}"
    )
    file.write_text("# kept\n" + text.replace("{}", "'70'  # of ten"))
    result = plimsoll("validate", "--fix", str(file))
    assert result.exit_code == 0
    assert file.read_text() == "# kept\n" + text.replace("{}", '"70%"  # of ten')


def test_a_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("- 1\n")
    result = plimsoll("validate", str(file))
    assert result.exit_code == 1
    assert f"{file}: a document is no Kubernetes object" in result.stderr
