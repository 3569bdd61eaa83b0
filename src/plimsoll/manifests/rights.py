"""What an installation may do: what its controllers declare, plus what the runtime itself does, and nothing else.

In read-only mode there is no right to write anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plimsoll.config import Config
from plimsoll.decision import Controller, Permission
from plimsoll.kube import resources
from plimsoll.kube.resources import Resource
from plimsoll.manifests.objects import NAME, Manifest, described

EVENTS = (Permission("events.k8s.io", "events", "create"), Permission("events.k8s.io", "events", "patch"))
_SEE = ("get", "list", "watch")


def rights_everywhere(
    config: Config, controllers: Sequence[Controller], seen: Sequence[Resource[Any]]
) -> list[Manifest]:
    """What the controllers see and do: cluster-wide, or in the watched namespaces and nowhere else."""
    wanted = sights(seen)
    if not config.operator.read_only_mode:
        wanted += [permission for controller in controllers for permission in controller.permissions]
    namespaces = config.operator.watch_namespaces
    namespaced = [permission for permission in wanted if not is_cluster_wide(permission, seen)]
    cluster_wide = [permission for permission in wanted if is_cluster_wide(permission, seen)]
    if not namespaces:
        cluster_wide, namespaced = wanted, []
    if not config.operator.read_only_mode:
        # An event on a node is kept in the namespace "default", so these cannot be bound to the watched ones.
        cluster_wide = [*cluster_wide, *EVENTS]
    subject = config.operator.namespace
    found = _grant("ClusterRole", "", cluster_wide, subject) if cluster_wide else []
    for namespace in namespaces if namespaced else ():
        found += _grant("Role", namespace, namespaced, subject)
    return found


def rights_at_home(config: Config, seen: Sequence[Resource[Any]]) -> list[Manifest]:
    """What the runtime keeps in its own namespace: the leader's lease, and what must outlive a restart."""
    home = config.operator.namespace
    watched = any(resource.watched_in == home for resource in seen)
    if config.operator.read_only_mode:
        rules = [rule("", ["configmaps"], list(_SEE))]
        return role_and_binding("Role", f"{NAME}-own", home, rules, home) if watched else []
    rules = [rule("", ["configmaps"], ["create", "get", "list", "patch", *(["watch"] if watched else [])])]
    election = config.operator.leader_election
    if election.enabled:
        rules += [
            rule("coordination.k8s.io", ["leases"], ["create"]),  # a creation cannot be limited to a name
            {**rule("coordination.k8s.io", ["leases"], ["get", "patch"]), "resourceNames": [election.lease_name]},
        ]
    return role_and_binding("Role", f"{NAME}-own", home, rules, home)


def sights(seen: Sequence[Resource[Any]]) -> list[Permission]:
    """What it takes to watch these kinds wherever they are."""
    return [
        Permission(resource.group, resource.plural, verb)
        for resource in seen
        if not resource.watched_in
        for verb in _SEE
    ]


def is_cluster_wide(permission: Permission, seen: Iterable[Resource[Any]]) -> bool:
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


def _grant(kind: str, namespace: str, permissions: Iterable[Permission], subject: str) -> list[Manifest]:
    return role_and_binding(kind, NAME, namespace, rules_for(permissions), subject)


def rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}


def role_and_binding(kind: str, name: str, namespace: str, rules: list[Manifest], subject: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    return [
        described(f"{group}/v1", kind, namespace, name, rules=rules),
        described(
            f"{group}/v1",
            f"{kind}Binding",
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": subject}],
        ),
    ]
