"""What an installation may do: what its controllers declare, plus what the runtime itself does, and nothing else.

In read-only mode there is no right to write anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.kube.types import resources
from plimsoll.kube.types.resources import Resource
from plimsoll.manifests.objects import NAME, Manifest, described, outside
from plimsoll.runtime.decision import Controller, Permission
from plimsoll.runtime.operator import evicts

EVENTS = (Permission("events.k8s.io", "events", "create"), Permission("events.k8s.io", "events", "patch"))
# Where the API server keeps events about objects that have no namespace.
EVENTS_OF_CLUSTER_WIDE_OBJECTS = "default"
# Admissions that the view cannot answer yet are answered from live reads of the pod's owners.
LIVE_LOOKS = tuple(Permission("apps", kind, "get") for kind in ("deployments", "replicasets", "statefulsets"))
_SEE = ("list", "watch")


def rights_everywhere(
    config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]], *, webhook: bool
) -> list[Manifest]:
    """What the controllers see and do: cluster-wide, or in the watched namespaces and nowhere else."""
    wanted = sights(seen)
    if not config.operator.read_only_mode:
        wanted += [one for controller in controllers for one in controller.permissions if not one.namespace]
        wanted += EVENTS
    if webhook:
        wanted += LIVE_LOOKS
    home, watched = config.operator.namespace, config.operator.watch_namespaces
    if not watched:
        return _grant("ClusterRole", "", wanted, home)
    cluster_wide = [permission for permission in wanted if is_cluster_wide(permission, seen)]
    namespaced = [permission for permission in wanted if not is_cluster_wide(permission, seen)]
    found = _grant("ClusterRole", "", cluster_wide, home)
    for namespace in watched:
        found += _grant("Role", namespace, namespaced, home)
    # Placement alone tells about such objects: a namespace whose window cannot be read.
    tells = not config.operator.read_only_mode and any(one.name == "placement" for one in controllers)
    if tells and EVENTS_OF_CLUSTER_WIDE_OBJECTS not in watched:
        found += _grant("Role", EVENTS_OF_CLUSTER_WIDE_OBJECTS, EVENTS, home)
    return found


def rights_in_chosen_namespaces(config: Config, controllers: Sequence[Controller]) -> list[Manifest]:
    """What a controller does in a namespace that its own settings name, such as the leases of allocation."""
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


def rights_at_home(config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]]) -> list[Manifest]:
    """What the runtime keeps in its own namespace: the leader's lease, and what must outlive a restart."""
    home = config.operator.namespace
    verbs = {*_SEE} if any(resource.watched_in == home for resource in seen) else set()
    election = config.operator.leader_election
    rules: list[Manifest] = []
    if not config.operator.read_only_mode:
        if any(map(evicts, controllers)):
            verbs |= {"create", "get", "list", "patch"}
        if election.enabled:
            rules = [
                rule("coordination.k8s.io", ["leases"], ["create"]),  # a creation cannot be limited to a name
                {**rule("coordination.k8s.io", ["leases"], ["get", "patch"]), "resourceNames": [election.lease_name]},
            ]
    if verbs:
        rules = [rule("", ["configmaps"], sorted(verbs)), *rules]
    return role_and_binding("Role", f"{NAME}-own", home, rules, home) if rules else []


def rights_of_providers(config: Config, controllers: Sequence[Controller]) -> list[Manifest]:
    """What the makers of machines need where node groups ask for some, and those alone that are in use."""
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


# Machines of `kwok` are Node objects; until one appears, its order is a ConfigMap.
KWOK_NODES = tuple(Permission("", "nodes", verb) for verb in ("create", "delete", "get", "list", "patch"))
KWOK_ORDERS = tuple(Permission("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "patch"))
# A worker of a managed cluster cannot carry our key, so orders are written down before they are sent.
VPSIE_ORDERS = tuple(Permission("", "configmaps", verb) for verb in ("create", "delete", "get", "list", "patch"))


def sights(seen: Sequence[Resource[Any]]) -> list[Permission]:
    """What it takes to watch these kinds wherever they are."""
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
    by_rule: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # kinds of a group with the same verbs share a rule
    for (group, resource), allowed in sorted(verbs.items()):
        by_rule.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [rule(group, kinds, list(allowed)) for (group, allowed), kinds in by_rule.items()]


def _grant(kind: str, namespace: str, permissions: Sequence[Permission], home: str) -> list[Manifest]:
    return role_and_binding(kind, NAME, namespace, rules_for(permissions), home) if permissions else []


def rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}


def role_and_binding(kind: str, name: str, namespace: str, rules: list[Manifest], home: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    name = name if namespace == home else outside(home, name)
    return [
        described(f"{group}/v1", kind, namespace, name, rules=rules),
        described(
            f"{group}/v1",
            f"{kind}Binding",
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": home}],
        ),
    ]
