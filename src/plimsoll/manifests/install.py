"""What keeps the operator itself from being disturbed: by drains, by neighbours on the network, by a lack of room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.kube.types.resources import Resource
from plimsoll.manifests.dashboard import dashboard_manifests, opens_dashboard
from plimsoll.manifests.grafana import grafana_dashboard
from plimsoll.manifests.monitoring import monitoring
from plimsoll.manifests.objects import LABELS, NAME, Manifest, as_yaml, described, outside
from plimsoll.manifests.pods import CONFIG_FILE, deployment, metrics_service
from plimsoll.manifests.rbac import (
    rights_at_home,
    rights_everywhere,
    rights_in_chosen_namespaces,
    rights_of_providers,
)
from plimsoll.manifests.webhook import rights_to_registrations, serves_webhook, webhook_manifests
from plimsoll.runtime.decision import Controller

# The highest value that is not reserved for Kubernetes itself: who mends a lack of room must not be its victim.
PRIORITY = 1_000_000_000


def priority_class(home: str) -> Manifest:
    description = "The operator that keeps the cluster's capacity right comes before the workloads it makes room for."
    return described(
        "scheduling.k8s.io/v1", "PriorityClass", "", outside(home),
        value=PRIORITY, globalDefault=False, description=description,
    )  # fmt: skip


def disruption_budget(namespace: str) -> Manifest:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return described("policy/v1", "PodDisruptionBudget", namespace, spec=spec)


def network_policy(config: Config, *, webhook: bool) -> Manifest:
    """Whoever scrapes, probes, looks or asks about a pod may come in, by those ports alone. What goes out is the API server, a
    provider and the leader, whose addresses no policy can know."""
    ports = [{"protocol": "TCP", "port": "web"}]
    if webhook:
        ports.append({"protocol": "TCP", "port": "webhook"})
    if opens_dashboard(config):
        ports.append({"protocol": "TCP", "port": "dashboard"})
    spec = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
    return described("networking.k8s.io/v1", "NetworkPolicy", config.operator.namespace, NAME, spec=spec)


# Everything to apply, in order.


def manifests(
    config: Config,
    controllers: Sequence[Controller],
    *,
    seen: Sequence[Resource[Any]],
    settings: Mapping[str, Any],
    image: str,
    monitored: bool = False,
) -> list[Manifest]:
    """`seen` are the kinds that are watched, for the controllers and for the runtime; `settings` is what the operator's
    file in the cluster will say; `monitored` adds objects of the Prometheus operator's kinds, and a dashboard of Grafana.
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
        described("v1", "ServiceAccount", namespace),
        priority_class(namespace),
        *rights_everywhere(config, controllers, seen, webhook=webhook),
        *rights_in_chosen_namespaces(config, controllers),
        *rights_at_home(config, controllers, seen),
        *rights_of_providers(config, controllers),
        *rights_to_registrations(config, controllers),
        *dashboard_manifests(config),
        described("v1", "ConfigMap", namespace, data={CONFIG_FILE: as_yaml(settings)}),
        metrics_service(config),
        *(webhook_manifests(config) if webhook else []),
        deployment(config, settings, image, webhook=webhook),
        disruption_budget(namespace),
        network_policy(config, webhook=webhook),
        *([*monitoring(namespace), grafana_dashboard(namespace)] if monitored else []),
    ]
