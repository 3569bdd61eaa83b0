"""The MutatingWebhookConfiguration of placement: one description for the manifests and for the operator itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.config.sources import ConfigProblem, ConfigurationError
from plimsoll.controllers.placement.workload import KUBE_SYSTEM

SERVICE = "plimsoll-webhook"
SECRET = "plimsoll-webhook-tls"  # noqa: S105 - its name
PATH = "/mutate"
WEBHOOK = "placement.plimsoll.dev"

# Evaluated by the API server, so that bare pods, jobs, daemons and mirror pods cost no request.
_OF_A_REPLICA_SET_OR_STATEFUL_SET = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller"
    " && o.apiVersion.startsWith('apps/') && o.kind in ['ReplicaSet', 'StatefulSet'])"
)


# A cluster may have several installations; their configurations are named by the operator's namespace, so that none removes another's.


def service_configuration(operator_namespace: str) -> str:
    """The name of the configuration that the chart or the manifests install."""
    return f"plimsoll.{operator_namespace}"


def url_configuration(operator_namespace: str) -> str:
    """The name of the configuration that an operator outside the cluster creates while it runs."""
    return f"plimsoll-url.{operator_namespace}"


def namespace_labels(written: Sequence[str]) -> dict[str, str]:
    """`placement.namespaceSelector`: the labels that a namespace must have."""
    labels: dict[str, str] = {}
    for text in written:
        label, equals, value = text.partition("=")
        if not (label and equals):
            message = f'"{text}" is not a label and its value; write it like "placement=managed"'
            raise ConfigurationError([ConfigProblem("", "placement.namespaceSelector", message)])
        labels[label] = value
    return labels


def service_client(operator_namespace: str) -> dict[str, Any]:
    return {"service": {"namespace": operator_namespace, "name": SERVICE, "path": PATH, "port": 443}}


def service_names(operator_namespace: str) -> tuple[str, ...]:
    """The DNS names that the API server and forwarding followers expect in the serving certificate."""
    return f"{SERVICE}.{operator_namespace}.svc", f"{SERVICE}.{operator_namespace}.svc.cluster.local"


def webhooks(
    client_config: Mapping[str, Any],
    *,
    operator_namespace: str,
    timeout_seconds: int,
    watch_namespaces: Sequence[str] = (),
    namespace_labels: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The `webhooks` of a MutatingWebhookConfiguration."""
    name = "kubernetes.io/metadata.name"
    # Pods of the control plane and of the operator must start without this webhook.
    expressions = [{"key": name, "operator": "NotIn", "values": [KUBE_SYSTEM, operator_namespace]}]
    if watch_namespaces:
        expressions.append({"key": name, "operator": "In", "values": list(watch_namespaces)})
    selector: dict[str, Any] = {"matchExpressions": expressions}
    if namespace_labels:
        selector["matchLabels"] = dict(namespace_labels)
    return [
        {
            "name": WEBHOOK,
            "clientConfig": dict(client_config),
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "namespaceSelector": selector,
            "matchConditions": [
                {"name": "of-a-replica-set-or-stateful-set", "expression": _OF_A_REPLICA_SET_OR_STATEFUL_SET}
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Ignore",
            "timeoutSeconds": timeout_seconds,
            # A later webhook may replace the affinity; on reinvocation ours is added again.
            "reinvocationPolicy": "IfNeeded",
        }
    ]
