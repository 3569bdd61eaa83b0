"""The chart and `plimsoll manifests` install the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import plimsoll

pytestmark = pytest.mark.process

CHART = Path(__file__).parents[2] / "charts" / "plimsoll"


def rendered(helm: Path, *arguments: str, namespace: str = "plimsoll-system") -> list[dict[str, Any]]:
    command = [str(helm), "template", "plimsoll", str(CHART), "--namespace", namespace, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return [one for one in yaml.safe_load_all(result.stdout) if one]


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = plimsoll("manifests", *arguments)
    assert result.exit_code == 0, result.stderr
    return [one for one in yaml.safe_load_all(result.stdout) if one["kind"] != "Namespace"]  # Helm makes that itself


def comparable(found: list[dict[str, Any]]) -> dict[tuple[str, str, str], Any]:
    """By kind and name. Rules as what they allow: Helm cannot merge those of several controllers."""
    by_name = {}
    for one in found:
        meta = one["metadata"]
        key = (one["kind"], meta.get("namespace", ""), meta["name"])
        assert key not in by_name
        by_name[key] = _parsed(one)
    return by_name


def _parsed(one: dict[str, Any]) -> dict[str, Any]:
    if one["kind"] in ("Role", "ClusterRole"):
        return {**one, "rules": _allowed(one["rules"])}
    if one["kind"] == "ConfigMap":
        return {**one, "data": {name: yaml.safe_load(text) for name, text in one["data"].items()}}
    return one


def _allowed(rules: list[dict[str, Any]]) -> set[tuple[str, str, str, tuple[str, ...]]]:
    return {
        (group, kind, verb, tuple(rule.get("resourceNames", ())))
        for rule in rules
        for group in rule.get("apiGroups", ["non-resource"])
        for kind in rule.get("resources") or rule["nonResourceURLs"]
        for verb in rule["verbs"]
    }


SAME: list[tuple[str, dict[str, Any], list[str]]] = [
    ("defaults", {}, []),
    ("one controller", {"controllers": {"enabled": ["deletion-cost"]}}, ["--controllers", "deletion-cost"]),
    ("all controllers", {"controllers": {"enabled": ["placement", "deletion-cost", "allocation"]}},
     ["--controllers", "placement,deletion-cost,allocation"]),
    ("node groups", {"controllers": {"enabled": ["nodegroups"]}}, ["--controllers", "nodegroups"]),
    ("node groups with a secret of another name",
     {"controllers": {"enabled": ["nodegroups"]}, "providers": {"vpsie": {"secretName": "mine", "secretNamespace": "safe"}}},
     ["--controllers", "nodegroups", "--set", "providers.vpsie.secretName=mine",
      "--set", "providers.vpsie.secretNamespace=safe"]),
    ("node groups that only look", {"controllers": {"enabled": ["nodegroups"]}, "operator": {"readOnlyMode": True}},
     ["--controllers", "nodegroups", "--read-only"]),
    ("node groups of KWOK, by what is measured",
     {"controllers": {"enabled": ["nodegroups"]}, "providers": {"enabled": ["kwok"]},
      "nodegroups": {"utilizationSource": "metrics"}},
     ["--controllers", "nodegroups", "--set", "providers.enabled=kwok", "--set", "nodegroups.utilizationSource=metrics"]),
    ("node groups of managed clusters, in watched namespaces",
     {"controllers": {"enabled": ["nodegroups"]}, "providers": {"vpsie": {"order": "cluster-nodes"}},
      "operator": {"watchNamespaces": ["shop", "default"]}},
     ["--controllers", "nodegroups", "--set", "providers.vpsie.order=cluster-nodes",
      "--set", "operator.watchNamespaces=shop,default"]),
    ("leases elsewhere", {"controllers": {"enabled": ["allocation"]}, "allocation": {"namespace": "storage"}},
     ["--controllers", "allocation", "--set", "allocation.namespace=storage"]),
    ("allocation that only looks", {"controllers": {"enabled": ["allocation"]}, "operator": {"readOnlyMode": True}},
     ["--controllers", "allocation", "--read-only"]),
    ("read-only", {"operator": {"readOnlyMode": True}}, ["--read-only"]),
    ("no webhook", {"webhook": {"mode": "off"}}, ["--set", "webhook.mode=off"]),
    ("watched namespaces", {"operator": {"watchNamespaces": ["shop", "office"]}},
     ["--set", "operator.watchNamespaces=shop,office"]),
    ("opted-in namespaces", {"placement": {"namespaceSelector": ["placement=managed"]}},
     ["--set", "placement.namespaceSelector=placement=managed"]),
    ("ports", {"web": {"port": 9090}, "webhook": {"port": 9444, "timeout": "5s"}},
     ["--set", "web.port=9090", "--set", "webhook.port=9444", "--set", "webhook.timeout=5s"]),
    ("another lease", {"operator": {"leaderElection": {"leaseName": "other"}}},
     ["--set", "operator.leaderElection.leaseName=other"]),
    ("alone", {"operator": {"leaderElection": {"enabled": False}}}, ["--set", "operator.leaderElection.enabled=false"]),
    ("certificates of others", {"webhook": {"certificateFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"}},
     ["--set", "webhook.certificateFile=/tls/tls.crt", "--set", "webhook.keyFile=/tls/tls.key"]),
    ("a dashboard for everybody who may look", {"dashboard": {"host": "*", "access": "token", "port": 8091}},
     ["--set", "dashboard.host=*", "--set", "dashboard.access=token", "--set", "dashboard.port=8091"]),
    ("a token for the dashboard on loopback", {"dashboard": {"access": "token"}}, ["--set", "dashboard.access=token"]),
    ("no dashboard", {"dashboard": {"enabled": False, "host": "*"}},
     ["--set", "dashboard.enabled=false", "--set", "dashboard.host=*"]),
]  # fmt: skip


@pytest.mark.parametrize(("config", "arguments"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_the_same_objects(helm: Path, tmp_path: Path, config: dict[str, Any], arguments: list[str]):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": config}))
    ours = comparable(printed("--namespace", "capacity", *arguments))
    theirs = comparable(rendered(helm, "-f", str(values), namespace="capacity"))
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert theirs[key] == one, key


def test_monitoring_behind_switches(helm: Path):
    ours = comparable(printed("--namespace", "plimsoll-system", "--monitoring"))
    switches = ("serviceMonitor", "prometheusRule", "grafanaDashboard")
    theirs = comparable(rendered(helm, *(word for one in switches for word in ("--set", f"{one}.enabled=true"))))
    assert theirs == ours


def test_kinds_of_our_own_are_kept_on_uninstall(helm: Path):
    kinds = {one["metadata"]["name"]: one for one in yaml.safe_load_all(plimsoll("manifests", "crds").stdout)}
    found = {
        one["metadata"]["name"]: one
        for one in rendered(helm, "--set", "crds.install=true")
        if one["kind"] == "CustomResourceDefinition"
    }
    assert found.keys() == kinds.keys()
    for name, one in found.items():
        assert one["metadata"].pop("annotations")["helm.sh/resource-policy"] == "keep"
        kinds[name]["metadata"].pop("annotations", None)
        assert one == kinds[name]
    assert not [one for one in rendered(helm) if one["kind"] == "CustomResourceDefinition"]


SUBRESOURCES = ("pods/eviction", "nodegroups/status", "vpsienodes/status", "wekacontainers/status")
SECRETS = {
    ("plimsoll-webhook-tls",),
    ("vpsie-secret",),
    ("mine",),
}  # our certificate, the provider's as a case names it
# The verbs on leases that the allocator's specification asks for: a ceiling.
LEASES = {"create", "delete", "get", "list", "patch", "update", "watch"}
EVERY_CONTROLLER = [
    "--controllers",
    "placement,deletion-cost,allocation,nodegroups",
    "--set",
    "providers.enabled=kwok,vpsie",
]


@pytest.mark.parametrize(
    "arguments", [*(case[2] for case in SAME), EVERY_CONTROLLER], ids=[*(case[0] for case in SAME), "every controller"]
)
def test_nothing_is_granted_that_would_surprise(arguments: list[str]):
    """No deletion of pods, no Secret but one by name, no exec, no wildcard, and leases in namespaces alone."""
    for one in printed(*arguments):
        if not one["kind"].endswith("Role"):
            continue
        for group, kind, verb, names in _allowed(one["rules"]):
            assert "*" not in (group, kind, verb)
            assert kind != "pods" or verb in {"get", "list", "watch", "patch"}
            assert "/" not in kind or kind in SUBRESOURCES or group == "non-resource"
            assert kind != "secrets" or (verb == "create" and one["kind"] == "Role") or names in SECRETS
            assert kind != "leases" or (one["kind"] == "Role" and verb in LEASES)
            assert kind != "configmaps" or one["kind"] == "Role"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "config.placment.rounding=up"], "placment"),
        (["--set", "config.placement.rounding=sideways"], "rounding"),
        (["--set", "replicas=0"], "replicas"),
        (["--set", "config.dashboard.host=*"], "dashboard.access"),
        (["--set", "config.webhook.mode=url"], "config.webhook.mode: url is for an operator outside of the cluster"),
        (["--set", "image.digest=abc"], "digest"),
        (["--set", "config.controllers.enabled={sorting}"], "/config/controllers/enabled/0"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_applied(helm: Path, arguments: list[str], told: str):
    command = [str(helm), "template", "plimsoll", str(CHART), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert told in result.stderr


def test_it_lints_and_packs(helm: Path, tmp_path: Path):
    for command in (["lint", "--strict", str(CHART)], ["package", str(CHART), "--destination", str(tmp_path)]):
        result = subprocess.run([str(helm), *command], capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["plimsoll-0.1.0.tgz"]
