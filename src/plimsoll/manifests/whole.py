"""Everything to apply, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.decision import Controller
from plimsoll.kube.resources import Resource
from plimsoll.manifests.dashboard import dashboard_manifests
from plimsoll.manifests.grafana import grafana_dashboard
from plimsoll.manifests.monitoring import monitoring
from plimsoll.manifests.objects import LABELS, Manifest, as_yaml, described
from plimsoll.manifests.process import CONFIG_FILE, deployment, metrics_service
from plimsoll.manifests.protection import disruption_budget, network_policy, priority_class
from plimsoll.manifests.rights import (
    rights_at_home,
    rights_everywhere,
    rights_in_chosen_namespaces,
    rights_of_providers,
)
from plimsoll.manifests.webhook import rights_to_registrations, serves_webhook, webhook_manifests


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
