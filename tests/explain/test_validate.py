"""`plimsoll validate`: one line a fault, with the place; `--fix` mends what is beyond doubt and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import plimsoll

WEB = """\
# größer als ASCII: places are counted in characters
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations:
    spotalis.io/enabled: {enabled}
    spotalis.io/spot-percentage: {percentage}   # most of it
    spotalis.io/min-on-demand: {minimum}
    pod-deletion-cost.lablabs.io/enabled: "true"
    pod-deletion-cost.lablabs.io/type: {type}
spec:
  replicas: 3
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c}}]}}}}
"""
GOOD = {"enabled": '"true"', "percentage": '"70%"', "minimum": '"1"', "type": "zone"}


def web(**values: str) -> str:
    return WEB.format(**(GOOD | values))


def test_nothing_is_wrong(tmp_path: Path):
    file = tmp_path / "web.yaml"
    file.write_text(web())
    result = plimsoll("validate", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 object, no problems\n")


@pytest.mark.parametrize(
    ("key", "value", "line", "told"),
    [
        ("enabled", '"TRUE"', 8, 'spotalis.io/enabled is "TRUE": must be "true" or "false"'),
        ("enabled", "true", 8, 'spotalis.io/enabled is "true": must be a string; write "true" with quotes'),
        ("percentage", '"70"', 9, 'spotalis.io/spot-percentage is "70": must end with %: write "70%"'),
        ("percentage", '"101%"', 9, 'spotalis.io/spot-percentage is "101%": must be a whole number from 0 to 100'),
        ("minimum", "'-1'", 10, 'spotalis.io/min-on-demand is "-1": must be a whole number from 0 to 999'),
        ("minimum", '"4"', 10, "MinOnDemandExceedsReplicas: "),
        ("type", "rack", 12, 'pod-deletion-cost.lablabs.io/type is "rack": there is no such type; types there are: '),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, key: str, value: str, line: int, told: str):
    file = tmp_path / "web.yaml"
    file.write_text(web(**{key: value}))
    result = plimsoll("validate", str(file))
    assert result.exit_code == 1
    (only,) = result.stdout.splitlines()
    assert only.startswith(f"{file}:{line}: Deployment shop/web: {told}")


def test_all_faults_of_all_files_at_once(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(web(percentage="70", minimum="1"))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.yml").write_text(web(enabled='"yes"'))
    (tmp_path / "below" / "c.json").write_text("{]")
    (tmp_path / "below" / "d.txt").write_text("not looked at: {")
    result = plimsoll("validate", str(tmp_path), "-o", "json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(fault["line"], fault["key"]) for fault in report["faults"]] == [
        (9, "spotalis.io/spot-percentage"), (10, "spotalis.io/min-on-demand"), (8, "spotalis.io/enabled"),
    ]  # fmt: skip
    assert len(report["unreadable"]) == 1
    assert "c.json:1: not YAML or JSON" in report["unreadable"][0]


def test_fix_writes_what_is_beyond_doubt_and_keeps_the_rest(tmp_path: Path):
    file = tmp_path / "web.yaml"
    file.write_text(web(enabled="True", percentage='" 60 %"', minimum="1", type="rack"))
    result = plimsoll("validate", "--fix", str(file))
    assert result.exit_code == 1
    assert [line.split(": ")[2] for line in result.stdout.splitlines()] == [
        'pod-deletion-cost.lablabs.io/type is "rack"'
    ]
    assert file.read_text() == web(enabled='"true"', percentage='"60%"', minimum='"1"', type="rack")


def test_fix_leaves_a_file_alone_that_needs_a_person(tmp_path: Path):
    file = tmp_path / "web.yaml"
    text = web(percentage='"101%"', minimum='"2.5"')
    file.write_text(text)
    assert plimsoll("validate", "--fix", str(file)).exit_code == 1
    assert file.read_text() == text


def test_namespaces_containers_and_what_is_none_of_our_business():
    text = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {spotalis.io/disruption-schedule: "0 3 * * *"}}
---
apiVersion: weka.weka.io/v1alpha1
kind: WekaContainer
metadata: {name: backend}
spec: {nodeAffinity: n1, mode: drive, numDrives: -2}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
"""
    told = plimsoll("validate", "-", stdin=text).stdout.splitlines()
    assert len(told) == 2
    assert "standard input:4: Namespace shop: spotalis.io/disruption-schedule" in told[0]
    assert told[1].startswith("standard input:9: WekaContainer backend: ")
    assert "numDrives" in told[1]


def test_the_configuration_counts(tmp_path: Path):
    file = tmp_path / "web.yaml"
    file.write_text(web(percentage='"70"'))
    assert plimsoll("validate", str(file), "--set", "placement.percentSign=optional").exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text", 'not a Kubernetes object: expected a mapping with "apiVersion" and "kind"'),
        ("kind: List\nitems: 3", '"items" of List must be a list'),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {}", "Deployment without metadata.name"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: many}",
            "Expected `int`, got `str` - at `$.spec.replicas`",
        ),
    ],
)
def test_files_that_are_no_objects(text: str, message: str):
    result = plimsoll("validate", "-", stdin=text)
    assert result.exit_code == 1
    assert message in result.stdout


def test_a_folder_without_files(tmp_path: Path):
    result = plimsoll("validate", str(tmp_path))
    assert result.exit_code == 2
    assert "contains no .yaml, .yml, .json file" in result.stderr


SCALED = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations: {spotalis.io/enabled: "true", spotalis.io/min-on-demand: "3", spotalis.io/spot-percentage: "50%"}
spec: {replicas: 6}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: LOWEST
  maxReplicas: 10
"""


@pytest.mark.parametrize(("lowest", "warned"), [("2", True), ("3", False)])
def test_an_autoscaler_below_the_minimum_is_a_warning_and_no_problem(tmp_path: Path, lowest: str, warned: bool):
    file = tmp_path / "web.yaml"
    file.write_text(SCALED.replace("LOWEST", lowest))
    result = plimsoll("validate", str(file), "-o", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert [(one["key"], one["value"]) for one in report["warnings"]] == ([("minReplicas", lowest)] if warned else [])
    told = plimsoll("validate", str(file))
    assert ("warning: " in told.stderr) is warned
