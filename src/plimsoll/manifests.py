"""What an installation applies to a cluster, without Helm: plain objects, and no right that nothing uses.

The rights follow from what the controllers declare that they watch and write, plus what the runtime itself does. In
read-only mode there is no right to write anything at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import yaml

from plimsoll.config import Config
from plimsoll.decision import Controller, Permission
from plimsoll.kube import resources
from plimsoll.kube.resources import Resource
from plimsoll.placement.webhook_configuration import (
    SECRET,
    SERVICE,
    SERVICE_CONFIGURATION,
    URL_CONFIGURATION,
    namespace_labels,
    service_client,
    webhooks,
)

Manifest: TypeAlias = dict[str, Any]

NAME = "plimsoll"
LABELS = {"app.kubernetes.io/name": NAME}
CONFIG_FILE = "plimsoll.yaml"
CONFIG_DIRECTORY = "/etc/plimsoll"
NOBODY = 65532  # any user but root; the number that images without a shell give to "nonroot"

_EVENTS = (Permission("events.k8s.io", "events", "create"), Permission("events.k8s.io", "events", "patch"))
_SEE = ("get", "list", "watch")


def manifests(
    config: Config,
    controllers: Sequence[Controller],
    *,
    seen: Sequence[Resource[Any]],
    settings: Mapping[str, Any],
    image: str,
) -> list[Manifest]:
    """Everything to apply, in order.

    `seen` are the kinds that are watched, for the controllers and for the runtime; `settings` is what the operator's file
    in the cluster will say.
    """
    namespace = config.operator.namespace
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"},
            },
        },
        _object("v1", "ServiceAccount", namespace),
        *_rights_everywhere(config, controllers, seen),
        *_rights_at_home(config, seen),
        _object("v1", "ConfigMap", namespace, data={CONFIG_FILE: as_yaml(settings)}),
        _service(config),
        *(_webhook(config) if serves_webhook(config, controllers) else []),
        _deployment(config, settings, image, webhook=serves_webhook(config, controllers)),
    ]


def serves_webhook(config: Config, controllers: Sequence[Controller]) -> bool:
    """Whether pods are asked about through a Service of the cluster."""
    placing = any(controller.name == "placement" for controller in controllers)
    return placing and config.webhook.mode == "service" and not config.operator.read_only_mode


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """Without aliases, which nobody reads easily, and with lines of text as lines."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


# ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rights_everywhere(
    config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]]
) -> list[Manifest]:
    """What the controllers see and do: cluster-wide, or in the watched namespaces and nowhere else."""
    everywhere = [resource for resource in seen if not resource.watched_in]
    wanted = [Permission(resource.group, resource.plural, verb) for resource in everywhere for verb in _SEE]
    if not config.operator.read_only_mode:
        wanted += [permission for controller in controllers for permission in controller.permissions]
    namespaces = config.operator.watch_namespaces
    namespaced = [permission for permission in wanted if not _cluster_wide(permission, seen)]
    cluster_wide = [permission for permission in wanted if _cluster_wide(permission, seen)]
    if not namespaces:
        cluster_wide, namespaced = wanted, []
    if not config.operator.read_only_mode:
        # An event on a node is kept in the namespace "default", so these cannot be bound to the watched ones.
        cluster_wide = [*cluster_wide, *_EVENTS]
    subject = config.operator.namespace
    found = _grant("ClusterRole", "", cluster_wide, subject) if cluster_wide else []
    for namespace in namespaces if namespaced else ():
        found += _grant("Role", namespace, namespaced, subject)
    return found


def _rights_at_home(config: Config, seen: Sequence[Resource[Any]]) -> list[Manifest]:
    """What the runtime keeps in its own namespace: the leader's lease, and what must outlive a restart."""
    home = config.operator.namespace
    watched = any(resource.watched_in == home for resource in seen)
    if config.operator.read_only_mode:
        rules = [_rule("", ["configmaps"], list(_SEE))]
        return _role_and_binding("Role", f"{NAME}-own", home, rules, home) if watched else []
    rules = [_rule("", ["configmaps"], ["create", "get", "list", "patch", *(["watch"] if watched else [])])]
    election = config.operator.leader_election
    if election.enabled:
        rules += [
            _rule("coordination.k8s.io", ["leases"], ["create"]),  # a creation cannot be limited to a name
            {**_rule("coordination.k8s.io", ["leases"], ["get", "patch"]), "resourceNames": [election.lease_name]},
        ]
    return _role_and_binding("Role", f"{NAME}-own", home, rules, home)


def _cluster_wide(permission: Permission, seen: Iterable[Resource[Any]]) -> bool:
    plural = permission.resource.partition("/")[0]
    known = [*seen, *(kind for kind in vars(resources).values() if isinstance(kind, Resource))]
    return any(not kind.namespaced and (kind.group, kind.plural) == (permission.group, plural) for kind in known)


def _grant(kind: str, namespace: str, permissions: Iterable[Permission], subject: str) -> list[Manifest]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        verbs.setdefault((permission.group, permission.resource), set()).add(permission.verb)
    by_rule: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # kinds of a group with the same verbs share a rule
    for (group, resource), allowed in sorted(verbs.items()):
        by_rule.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    rules = [_rule(group, kinds, list(allowed)) for (group, allowed), kinds in by_rule.items()]
    return _role_and_binding(kind, NAME, namespace, rules, subject)


def _rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}


def _role_and_binding(kind: str, name: str, namespace: str, rules: list[Manifest], subject: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    return [
        _object(f"{group}/v1", kind, namespace, name, rules=rules),
        _object(
            f"{group}/v1",
            f"{kind}Binding",
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": subject}],
        ),
    ]


# ── the webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _webhook(config: Config) -> list[Manifest]:
    """Its Service and configuration, without a CA bundle: the operator writes that, and keeps it."""
    home = config.operator.namespace
    described = webhooks(
        service_client(home),
        operator_namespace=home,
        timeout_seconds=int(config.webhook.timeout.total_seconds()),
        watch_namespaces=config.operator.watch_namespaces,
        namespace_labels=namespace_labels(config.placement.namespace_selector),
    )
    group, kind = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"
    rules = [
        {**_rule(group, [kind], ["get", "patch"]), "resourceNames": [SERVICE_CONFIGURATION]},
        # What an operator outside of the cluster has left behind when it crashed.
        {**_rule(group, [kind], ["delete", "get"]), "resourceNames": [URL_CONFIGURATION]},
    ]
    found = _role_and_binding("ClusterRole", f"{NAME}-webhook", "", rules, home)
    if not config.webhook.certificate_file:
        own = [
            _rule("", ["secrets"], ["create"]),  # a creation cannot be limited to a name
            {**_rule("", ["secrets"], ["get", "patch"]), "resourceNames": [SECRET]},
        ]
        found += _role_and_binding("Role", f"{NAME}-webhook", home, own, home)
    ports = [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    return [
        *found,
        _object("v1", "Service", home, SERVICE, spec={"selector": LABELS, "ports": ports}),
        _object(f"{group}/v1", "MutatingWebhookConfiguration", "", SERVICE_CONFIGURATION, webhooks=described),
    ]


# ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _deployment(config: Config, settings: Mapping[str, Any], image: str, *, webhook: bool) -> Manifest:
    digest = hashlib.sha256(as_yaml(settings).encode()).hexdigest()[:16]
    pod = {
        # A changed file starts new pods: the operator reads it once.
        "metadata": {"labels": LABELS, "annotations": {"plimsoll.dev/config-digest": digest}},
        "spec": {
            "serviceAccountName": NAME,
            # Variables of Services named plimsoll-… would be taken for settings.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 15,  # a stop takes ten at most
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
    return _object("apps/v1", "Deployment", config.operator.namespace, spec=spec)


def _container(config: Config, image: str, *, webhook: bool) -> Manifest:
    variables = [_from_pod("POD_NAME", "metadata.name"), _from_pod("POD_NAMESPACE", "metadata.namespace")]
    ports = [{"name": "web", "containerPort": config.web.port}]
    if webhook:
        variables.append(_from_pod("POD_IP", "status.podIP"))  # where the other replicas reach the leader
        ports.append({"name": "webhook", "containerPort": config.webhook.port})
    return {
        "name": NAME,
        "image": image,
        "args": ["run", "--config", f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"],
        "env": variables,
        "ports": ports,
        "livenessProbe": _probe("/healthz", period_seconds=10, failures=6),
        "readinessProbe": _probe("/readyz", period_seconds=5, failures=2),
        # No CPU limit: a throttled leader cannot renew its lease in time. Memory grows with the pods in the view.
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True}],
    }


def _service(config: Config) -> Manifest:
    ports = [{"name": "metrics", "port": config.web.port, "targetPort": "web"}]
    metrics = _object("v1", "Service", config.operator.namespace, f"{NAME}-metrics")
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


def _object(api_version: str, kind: str, namespace: str, name: str = NAME, **parts: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}
