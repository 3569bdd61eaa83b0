"""The alerts, as Prometheus itself reads them: valid, and each one rings when it should and not before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from plimsoll.manifests.monitoring import ALERTS, alert_rules

pytestmark = pytest.mark.process

CASES = Path(__file__).with_name("alerts.test.yaml")


def run(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """As a PrometheusRule holds them."""
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "plimsoll", "rules": alert_rules()}]}))
    return file


def test_the_rules_are_valid(promtool: Path, rules: Path):
    assert f"{len(ALERTS)} rules found" in run(promtool, "check", "rules", "--lint-fatal", rules)


def test_each_alert_rings_when_it_should(promtool: Path, rules: Path):
    cases = rules.with_name("cases.yaml")
    cases.write_text(CASES.read_text())
    assert "SUCCESS" in run(promtool, "test", "rules", cases)


def test_every_alert_has_a_case_in_which_it_rings_and_one_in_which_it_does_not():
    tests = [one for case in yaml.safe_load(CASES.read_text())["tests"] for one in case["alert_rule_test"]]
    assert {one["alertname"] for one in tests if one.get("exp_alerts")} == {alert.name for alert in ALERTS}
    assert {one["alertname"] for one in tests if not one.get("exp_alerts")} == {alert.name for alert in ALERTS}
