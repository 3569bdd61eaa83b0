"""RBAC of an installation: the permissions that its controllers declare, plus those of the runtime.

In read-only mode no role contains a verb that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.kube.types import resources
from plimsoll.kube.types.resources import Resource
from plimsoll.manifests.objects import NAME, Manifest, new_manifest, scoped_name
from plimsoll.runtime.decision import Controller, Permission
from plimsoll.runtime.operator import evicts

EVENTS = (Permission("events.k8s.io", "events", "create"), Permission("events.k8s.io", "events", "patch"))
# The namespace of events about cluster-scoped objects.
EVENTS_OF_CLUSTER_WIDE_OBJECTS = "default"
# The webhook reads the pod's owners live if the cache does not have them yet.
LIVE_READS = tuple(Permission("apps", kind, "get") for kind in ("deployments", "replicasets", "statefulsets"))
_SEE = ("list", "watch")


def controller_roles(
    config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]], *, webhook: bool
) -> list[Manifest]:
    """What the controllers watch and write: a ClusterRole, or Roles in the watched namespaces."""
    wanted = watch_permissions(seen)
    if not config.operator.read_only_mode:
        wanted += [one for controller in controllers for one in controller.permissions if not one.namespace]
        wanted += EVENTS
    if webhook:
        wanted += LIVE_READS
    home, watched = config.operator.namespace, config.operator.watch_namespaces
    if not watched:
        return _grant("ClusterRole", "", wanted, home)
    cluster_wide = [permission for permission in wanted if is_cluster_wide(permission, seen)]
    namespaced = [permission for permission in wanted if not is_cluster_wide(permission, seen)]
    found = _grant("ClusterRole", "", cluster_wide, home)
    for namespace in watched:
        found += _grant("Role", namespace, namespaced, home)
    # Only placement writes such events: for a Namespace with an invalid window.
    tells = not config.operator.read_only_mode and any(one.name == "placement" for one in controllers)
    if tells and EVENTS_OF_CLUSTER_WIDE_OBJECTS not in watched:
        found += _grant("Role", EVENTS_OF_CLUSTER_WIDE_OBJECTS, EVENTS, home)
    return found


def settings_namespace_roles(config: Config, controllers: Sequence[Controller]) -> list[Manifest]:
    """Roles in namespaces that a controller's settings name, such as the lease namespace of allocation."""
    found: list[Manifest] = []
    for controller in controllers if not config.operator.read_only_mode else ():
        by_namespace: dict[str, list[Permission]] = {}
        for permission in controller.permissions:
            by_namespace.setdefault(permission.namespace, []).append(permission)
        by_namespace.pop("", None)
        for namespace, permissions in by_namespace.items():
            name = f"{NAME}-{controller.name}"
            found += role_and_binding("Role", name, namespace, rules_for(permissions), config.operator.namespace)
    return found


def own_namespace_roles(
    config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]]
) -> list[Manifest]:
    """The Role in the operator's namespace: leader election and the ConfigMaps that keep state across restarts."""
    home = config.operator.namespace
    verbs = {*_SEE} if any(resource.watched_in == home for resource in seen) else set()
    election = config.operator.leader_election
    rules: list[Manifest] = []
    if not config.operator.read_only_mode:
        if any(map(evicts, controllers)):
            verbs |= {"create", "get", "list", "patch"}
        if election.enabled:
            rules = [
                rule("coordination.k8s.io", ["leases"], ["create"]),  # RBAC cannot limit create by name
                {**rule("coordination.k8s.io", ["leases"], ["get", "patch"]), "resourceNames": [election.lease_name]},
            ]
    if verbs:
        rules = [rule("", ["configmaps"], sorted(verbs)), *rules]
    return role_and_binding("Role", f"{NAME}-own", home, rules, home) if rules else []


def provider_roles(config: Config, controllers: Sequence[Controller]) -> list[Manifest]:
    """Roles for the enabled providers, if node groups run."""
    if config.operator.read_only_mode or not any(one.name == "nodegroups" for one in controllers):
        return []
    home, vpsie, enabled = config.operator.namespace, config.providers.vpsie, config.providers.enabled
    found: list[Manifest] = []
    if "kwok" in enabled:
        found += role_and_binding("ClusterRole", f"{NAME}-kwok", "", rules_for(KWOK_NODES), home)
        found += role_and_binding("Role", f"{NAME}-kwok", home, rules_for(KWOK_ORDERS), home)
    if "vpsie" in enabled:
        secret = {**rule("", ["secrets"], ["get"]), "resourceNames": [vpsie.secret_name]}
        found += role_and_binding("Role", f"{NAME}-vpsie", vpsie.secret_namespace, [secret], home)
        if vpsie.order == "cluster-nodes":
            found += role_and_binding("Role", f"{NAME}-vpsie-orders", home, rules_for(VPSIE_ORDERS), home)
    return found


# A machine of `kwok` is a Node object; an order is a ConfigMap until its Node appears.
KWOK_NODES = tuple(Permission("", "nodes", verb) for verb in ("create", "delete", "get", "list", "patch"))
KWOK_ORDERS = tuple(Permission("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "patch"))
# A worker of a managed cluster cannot carry our key, so each order is stored before it is sent.
VPSIE_ORDERS = tuple(Permission("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "patch"))


def watch_permissions(seen: Sequence[Resource[Any]]) -> list[Permission]:
    """list and watch for these kinds in all namespaces."""
    return [
        Permission(resource.group, resource.plural, verb)
        for resource in seen
        if not resource.watched_in
        for verb in _SEE
    ]


def is_cluster_wide(permission: Permission, seen: Iterable[Resource[Any]]) -> bool:
    if permission.cluster_wide:
        return True
    plural = permission.resource.partition("/")[0]
    known = [*seen, *(kind for kind in vars(resources).values() if isinstance(kind, Resource))]
    return any(not kind.namespaced and (kind.group, kind.plural) == (permission.group, plural) for kind in known)


def rules_for(permissions: Iterable[Permission]) -> list[Manifest]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        verbs.setdefault((permission.group, permission.resource), set()).add(permission.verb)
    by_rule: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # kinds of a group with the same verbs share one rule
    for (group, resource), allowed in sorted(verbs.items()):
        by_rule.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [rule(group, kinds, list(allowed)) for (group, allowed), kinds in by_rule.items()]


def _grant(kind: str, namespace: str, permissions: Sequence[Permission], home: str) -> list[Manifest]:
    return role_and_binding(kind, NAME, namespace, rules_for(permissions), home) if permissions else []


def rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}


def role_and_binding(kind: str, name: str, namespace: str, rules: list[Manifest], home: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    name = name if namespace == home else scoped_name(home, name)
    return [
        new_manifest(f"{group}/v1", kind, namespace, name, rules=rules),
        new_manifest(
            f"{group}/v1",
            f"{kind}Binding",
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": home}],
        ),
    ]
