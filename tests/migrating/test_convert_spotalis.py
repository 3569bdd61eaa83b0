"""`plimsoll config convert spotalis`: the example configuration of Spotalis becomes one that Plimsoll accepts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cli.command import plimsoll

# Every key of the example that Spotalis ships, with values of our own.
EXAMPLE = """
operator:
  namespace: spotalis-system
  leaderElection: {enabled: false, id: spotalis-controller-leader, namespace: spotalis-system}
  readOnlyMode: true
  disruptionWindow: {schedule: "0 2 ? * *", duration: 4h}
controllers:
  reconcileInterval: 30s
  maxConcurrentReconciles: 2
  rateLimit: {qps: 100.0, burst: 150}
  workloadTiming: {cooldownPeriod: 5s, disruptionRetryInterval: 30s, disruptionWindowPollInterval: 2m}
  nodeClassifier:
    spotLabels:
      - matchLabels: {example.org/lifecycle: spot}
      - matchExpressions: [{key: example.org/pool, operator: In, values: [a, b]}]
      - matchLabels: {one: x, two: y}
    onDemandLabels:
      - matchLabels: {karpenter.sh/capacity-type: on-demand}
webhook: {enabled: true, port: 9443, certDir: /certs, certName: tls.crt, keyName: tls.key}
observability:
  logging: {level: warn, format: json, output: stdout, addCaller: true, development: false}
  metrics: {enabled: true, bindAddress: ":8081", path: /metrics}
  health: {enabled: true, bindAddress: ":8082", path: /healthz}
typo: 1
"""


def test_the_example_becomes_ours_and_what_has_no_counterpart_is_named(tmp_path: Path) -> None:
    done = plimsoll("config", "convert", "spotalis", "-", stdin=EXAMPLE)
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout) == {
        "controllers": {
            "enabled": ["placement"], "reconcileInterval": "30s", "maxConcurrentReconciles": 2,
            "workloadTiming": {"cooldownPeriod": "5s", "disruptionRetryInterval": "30s"},
        },
        "operator": {
            "leaderElection": {"enabled": False}, "readOnlyMode": True,
            "disruptionWindow": {"schedule": "0 2 ? * *", "duration": "4h"},
        },
        "kubernetes": {"qps": 100, "burst": 150},
        "placement": {"spotLabels": ["example.org/lifecycle=spot", "example.org/pool=a", "example.org/pool=b"]},
        "webhook": {"mode": "service", "port": 9443},
        "logging": {"level": "warning", "format": "json"},
        "web": {"host": "*", "port": 8081},
    }  # fmt: skip
    notes = done.stderr.splitlines()
    for key in (
        "operator.namespace", "operator.leaderElection.id", "operator.leaderElection.namespace",
        "controllers.workloadTiming.disruptionWindowPollInterval", "controllers.nodeClassifier.onDemandLabels",
        "webhook.certDir", "observability.logging.output", "observability.metrics.path", "observability.health.bindAddress",
    ):  # fmt: skip
        assert [note for note in notes if note.startswith(f"{key}: ") and "unknown" not in note], key
    assert "typo: unknown key; not converted" in notes
    assert any(note.startswith("controllers.nodeClassifier.spotLabels: a selector of several labels") for note in notes)
    file = tmp_path / "plimsoll.yaml"
    file.write_text(done.stdout)
    assert plimsoll("config", "check", str(file)).exit_code == 0


def test_its_config_map_will_do(tmp_path: Path) -> None:
    file = tmp_path / "configmap.yaml"
    file.write_text(yaml.safe_dump({"kind": "ConfigMap", "data": {"config.yaml": "operator: {readOnlyMode: true}"}}))
    done = plimsoll("config", "convert", "spotalis", str(file))
    assert yaml.safe_load(done.stdout)["operator"] == {"readOnlyMode": True}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "expected a mapping"),
        ("a: [", "expected the node content"),
        ("observability: {metrics: {bindAddress: nowhere}}", "expected HOST:PORT"),
        ("operator: {disruptionWindow: {schedule: 'every day', duration: 4h}}", "is not a cron expression"),
    ],
)
def test_what_cannot_be_converted_is_an_error(text: str, said: str) -> None:
    done = plimsoll("config", "convert", "spotalis", "-", stdin=text)
    assert done.exit_code != 0
    assert said in done.output + done.stderr
