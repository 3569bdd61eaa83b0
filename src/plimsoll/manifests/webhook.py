"""Service, MutatingWebhookConfiguration and RBAC of the admission webhook."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.config import Config
from plimsoll.controllers.placement.webhook_configuration import (
    SECRET,
    SERVICE,
    namespace_labels,
    service_client,
    service_configuration,
    url_configuration,
    webhooks,
)
from plimsoll.manifests.objects import LABELS, NAME, Manifest, new_manifest
from plimsoll.manifests.rbac import role_and_binding, rule
from plimsoll.runtime.decision import Controller

_GROUP, _KIND = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"


def serves_webhook(config: Config, controllers: Sequence[Controller]) -> bool:
    """Whether the webhook is registered through a Service."""
    return _places(config, controllers) and config.webhook.mode == "service"


def _places(config: Config, controllers: Sequence[Controller]) -> bool:
    return not config.operator.read_only_mode and any(controller.name == "placement" for controller in controllers)


def registration_roles(config: Config, controllers: Sequence[Controller]) -> list[Manifest]:
    """Access to the two MutatingWebhookConfigurations of this installation, by name.

    One is installed with it. The other is left by an operator outside the cluster that crashed; it is deleted even if the
    webhook is off.
    """
    if not _places(config, controllers):
        return []
    home = config.operator.namespace
    rules = [{**rule(_GROUP, [_KIND], ["delete", "get"]), "resourceNames": [url_configuration(home)]}]
    if serves_webhook(config, controllers):
        rules += [{**rule(_GROUP, [_KIND], ["get", "patch"]), "resourceNames": [service_configuration(home)]}]
    return role_and_binding("ClusterRole", f"{NAME}-webhook", "", rules, home)


def webhook_manifests(config: Config) -> list[Manifest]:
    """The Service and the configuration without a CA bundle: the operator writes and renews it."""
    home = config.operator.namespace
    hooks = webhooks(
        service_client(home),
        operator_namespace=home,
        timeout_seconds=int(config.webhook.timeout.total_seconds()),
        watch_namespaces=config.operator.watch_namespaces,
        namespace_labels=namespace_labels(config.placement.namespace_selector),
    )
    found: list[Manifest] = []
    if not config.webhook.certificate_file:
        own = [
            rule("", ["secrets"], ["create"]),  # RBAC cannot limit create by name
            {**rule("", ["secrets"], ["get", "patch"]), "resourceNames": [SECRET]},
        ]
        found += role_and_binding("Role", f"{NAME}-webhook", home, own, home)
    ports = [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    return [
        *found,
        new_manifest("v1", "Service", home, SERVICE, spec={"selector": LABELS, "ports": ports}),
        new_manifest(f"{_GROUP}/v1", "MutatingWebhookConfiguration", "", service_configuration(home), webhooks=hooks),
    ]
