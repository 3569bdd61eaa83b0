"""The Deployment of the operator and its metrics Service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from plimsoll.config import Config
from plimsoll.manifests.dashboard import opens_dashboard
from plimsoll.manifests.objects import LABELS, NAME, Manifest, new_manifest, scoped_name

CONFIG_FILE = "plimsoll.yaml"
CONFIG_DIRECTORY = "/etc/plimsoll"
NOBODY = 65532  # the uid of "nonroot" in distroless images


def deployment(config: Config, settings: Mapping[str, Any], image: str, *, webhook: bool) -> Manifest:
    # The same digest as the chart: Helm can print sorted JSON but not our YAML.
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
    pod = {
        # The operator reads its file once, so a changed file must restart the pods.
        "metadata": {"labels": LABELS, "annotations": {"plimsoll.dev/config-digest": digest}},
        "spec": {
            "serviceAccountName": NAME,
            "priorityClassName": scoped_name(config.operator.namespace),
            # Variables of Services named plimsoll-… would be read as settings.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 15,  # a stop takes 10 s at most
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "runAsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": LABELS},
                }
            ],
            "containers": [_container(config, image, webhook=webhook)],
            "volumes": [{"name": "config", "configMap": {"name": NAME}}],
        },
    }
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": pod}
    return new_manifest("apps/v1", "Deployment", config.operator.namespace, spec=spec)


def _container(config: Config, image: str, *, webhook: bool) -> Manifest:
    variables = [_from_pod("POD_NAME", "metadata.name"), _from_pod("POD_NAMESPACE", "metadata.namespace")]
    ports = [{"name": "web", "containerPort": config.web.port}]
    if webhook:
        variables.append(_from_pod("POD_IP", "status.podIP"))  # where followers reach the leader
        ports.append({"name": "webhook", "containerPort": config.webhook.port})
    if opens_dashboard(config):
        ports.append({"name": "dashboard", "containerPort": config.dashboard.port})
    return {
        "name": NAME,
        "image": image,
        "args": ["run", "--config", f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"],
        "env": variables,
        "ports": ports,
        "livenessProbe": _probe("/healthz", period_seconds=10, failures=6),
        "readinessProbe": _probe("/readyz", period_seconds=5, failures=2),
        # No CPU limit: a throttled leader cannot renew its lease in time. Memory grows with the number of cached pods.
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True}],
    }


def metrics_service(config: Config) -> Manifest:
    ports = [{"name": "metrics", "port": config.web.port, "targetPort": "web"}]
    metrics = new_manifest("v1", "Service", config.operator.namespace, f"{NAME}-metrics")
    return {**metrics, "spec": {"selector": LABELS, "ports": ports}}


def _probe(path: str, *, period_seconds: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "web"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _from_pod(variable: str, field: str) -> Manifest:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}}
