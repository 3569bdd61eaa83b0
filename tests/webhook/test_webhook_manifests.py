"""What an installation needs for its webhook, and what is left out where there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from plimsoll.config import Config, OperatorConfig, Placement, Webhook
from plimsoll.config.sources import ConfigurationError
from plimsoll.manifests.objects import Manifest
from tests.cli.command import plimsoll
from tests.cli.test_manifests import Sorting, granted, render

GRANTS = ("ClusterRole", "ClusterRoleBinding")
SERVED = Config(webhook=Webhook(mode="service"))


def named(kind: str, name: str, found: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in found if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)]


def the_hook(config: Config) -> dict[str, Any]:
    (configuration,) = named("MutatingWebhookConfiguration", f"plimsoll.{config.operator.namespace}", render(config))
    (hook,) = configuration["webhooks"]
    found: dict[str, Any] = hook
    return found


def test_the_service_leads_from_the_configuration_to_the_container():
    found = render(SERVED)
    where = the_hook(SERVED)["clientConfig"]["service"]
    (service,) = named("Service", where["name"], found)
    assert service["metadata"]["namespace"] == where["namespace"]
    (port,) = [port for port in service["spec"]["ports"] if port["port"] == where["port"]]
    (deployment,) = named("Deployment", "plimsoll", found)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": port["targetPort"], "containerPort": 9443} in container["ports"]
    assert "POD_IP" in [variable["name"] for variable in container["env"]]


def test_it_asks_briefly_and_only_about_replicas_elsewhere():
    hook = the_hook(SERVED)
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 2, "NoneOnDryRun")
    assert hook["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "plimsoll-system"]}
        ]
    }
    (condition,) = hook["matchConditions"]
    assert "ReplicaSet" in condition["expression"]
    slower = Config(webhook=Webhook(mode="service", timeout=timedelta(seconds=5)))
    assert the_hook(slower)["timeoutSeconds"] == 5


def test_namespaces_can_opt_in():
    chosen = Config(
        operator=OperatorConfig(watch_namespaces=("shop",)),
        placement=Placement(namespace_selector=("placement=managed",)),
        webhook=Webhook(mode="service"),
    )
    selector = the_hook(chosen)["namespaceSelector"]
    assert selector["matchLabels"] == {"placement": "managed"}
    assert {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]} in selector["matchExpressions"]
    with pytest.raises(ConfigurationError, match=r"placement\.namespaceSelector"):
        render(Config(placement=Placement(namespace_selector=("managed",)), webhook=Webhook(mode="service")))


def test_its_rights_are_to_its_own_objects():
    found = render(SERVED)
    (role,) = named("Role", "plimsoll-webhook", found)
    assert granted(role) == {("", "secrets", verb) for verb in ("create", "get", "patch")}
    assert [rule["resourceNames"] for rule in role["rules"] if "get" in rule["verbs"]] == [["plimsoll-webhook-tls"]]
    (everywhere,) = named("ClusterRole", "plimsoll-webhook.plimsoll-system", found)
    assert {rule["resourceNames"][0]: rule["verbs"] for rule in everywhere["rules"]} == {
        "plimsoll.plimsoll-system": ["get", "patch"],
        "plimsoll-url.plimsoll-system": ["delete", "get"],
    }
    files = Config(webhook=Webhook(mode="service", certificate_file="/tls/tls.crt", key_file="/tls/tls.key"))
    assert named("Role", "plimsoll-webhook", render(files)) == []


@pytest.mark.parametrize(
    ("config", "controllers"),
    [
        (Config(webhook=Webhook(mode="off")), None),
        (Config(operator=OperatorConfig(read_only_mode=True), webhook=Webhook(mode="service")), None),
        (SERVED, (Sorting(),)),
    ],
    ids=["off", "read-only", "without placement"],
)
def test_where_nobody_is_asked_nothing_of_it_is_installed(config, controllers):
    found = render(config, controllers) if controllers else render(config)
    # A registration that a crash left behind may be taken away where replicas are placed.
    kept = {("ConfigMap", "plimsoll"), *((kind, "plimsoll-webhook.plimsoll-system") for kind in GRANTS)}
    others = [m for m in found if (m["kind"], m["metadata"]["name"]) not in kept]
    assert "webhook" not in yaml.safe_dump(others).lower()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("webhook.port=0", "webhook.port: 0 selects a random port"),
        ("webhook.mode=url", "outside the cluster"),
        ("placement.namespaceSelector=managed", "placement.namespaceSelector"),
    ],
)
def test_what_makes_no_sense_in_a_cluster_is_refused(setting, told):
    result = plimsoll("manifests", "--set", setting)
    assert result.exit_code != 0
    assert told in result.stderr
