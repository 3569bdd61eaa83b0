"""All objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.kube.types.resources import Resource
from plimsoll.manifests.dashboard import dashboard_manifests, opens_dashboard
from plimsoll.manifests.grafana import grafana_dashboard
from plimsoll.manifests.monitoring import monitoring
from plimsoll.manifests.objects import LABELS, NAME, Manifest, as_yaml, new_manifest, scoped_name
from plimsoll.manifests.pods import CONFIG_FILE, deployment, metrics_service
from plimsoll.manifests.rbac import (
    controller_roles,
    own_namespace_roles,
    provider_roles,
    settings_namespace_roles,
)
from plimsoll.manifests.webhook import registration_roles, serves_webhook, webhook_manifests
from plimsoll.runtime.decision import Controller

# The highest value that Kubernetes does not reserve: the operator must run even if the cluster has no capacity left.
PRIORITY = 1_000_000_000


def priority_class(home: str) -> Manifest:
    description = "For the Plimsoll operator, which provides capacity for other workloads."
    return new_manifest(
        "scheduling.k8s.io/v1", "PriorityClass", "", scoped_name(home),
        value=PRIORITY, globalDefault=False, description=description,
    )  # fmt: skip


def disruption_budget(namespace: str) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return new_manifest("policy/v1", "PodDisruptionBudget", namespace, spec=spec)


def network_policy(config: Config, *, webhook: bool) -> Manifest:
    """Allow ingress to the ports of metrics, probes, webhook and dashboard only.

    Egress is open: it goes to the API server, providers and the leader, whose addresses a policy cannot know.
    """
    ports = [{"protocol": "TCP", "port": "web"}]
    if webhook:
        ports.append({"protocol": "TCP", "port": "webhook"})
    if opens_dashboard(config):
        ports.append({"protocol": "TCP", "port": "dashboard"})
    spec = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
    return new_manifest("networking.k8s.io/v1", "NetworkPolicy", config.operator.namespace, NAME, spec=spec)


def manifests(
    config: Config,
    controllers: Sequence[Controller],
    *,
    seen: Sequence[Resource[Any]],
    settings: Mapping[str, Any],
    image: str,
    monitored: bool = False,
) -> list[Manifest]:
    """All manifests, in order.

    seen: the watched kinds. settings: the content of the operator's configuration file. monitored: add a ServiceMonitor, a
    PrometheusRule and the Grafana dashboard.
    """
    namespace = config.operator.namespace
    webhook = serves_webhook(config, controllers)
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"},
            },
        },
        new_manifest("v1", "ServiceAccount", namespace),
        priority_class(namespace),
        *controller_roles(config, controllers, seen, webhook=webhook),
        *settings_namespace_roles(config, controllers),
        *own_namespace_roles(config, controllers, seen),
        *provider_roles(config, controllers),
        *registration_roles(config, controllers),
        *dashboard_manifests(config),
        new_manifest("v1", "ConfigMap", namespace, data={CONFIG_FILE: as_yaml(settings)}),
        metrics_service(config),
        *(webhook_manifests(config) if webhook else []),
        deployment(config, settings, image, webhook=webhook),
        disruption_budget(namespace),
        network_policy(config, webhook=webhook),
        *([*monitoring(namespace), grafana_dashboard(namespace)] if monitored else []),
    ]
