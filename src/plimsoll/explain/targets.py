"""Resolve a target such as deploy/web or node/n1 and explain it. `plimsoll explain` and the dashboard call this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from plimsoll.config import Config
from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.controllers.allocation.report import waiting_reason
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.build import MAKERS, deletion_cost, node_groups, placement, placement_settings
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.explain.nodegroups import explain_group
from plimsoll.explain.nodes import explain_node
from plimsoll.explain.pods import explain_pod
from plimsoll.explain.records import DecisionExplanation, Explanation, steps
from plimsoll.explain.workloads import explain_workload
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.runtime.decision import Controller

# Names and short names as in kubectl.
ALIASES: Mapping[str, str] = {
    "deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
    "statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
    "node": "Node", "nodes": "Node", "no": "Node",
    "pod": "Pod", "pods": "Pod", "po": "Pod",
    "nodegroup": "NodeGroup", "nodegroups": "NodeGroup", "ng": "NodeGroup",
    "vpsienode": "VPSieNode", "vpsienodes": "VPSieNode", "vn": "VPSieNode",
    "wekacontainer": "WekaContainer", "wekacontainers": "WekaContainer",
}  # fmt: skip


class Explainer:
    """Runs the decisions of all controllers without acting on them."""

    def __init__(self, config: Config, names: Collection[str] | None = None) -> None:
        """names: limits the controllers if the view only holds what those watch."""
        names = _explainable(config) if names is None else names
        self._settings = placement_settings(config)
        self._groups = node_groups(config)
        makes_nodes = self._groups.name in config.controllers.enabled
        self._placement = placement(config, self._groups if makes_nodes else None)
        self._deletion_cost = deletion_cost(config)
        known: tuple[Controller, ...] = (self._placement, self._deletion_cost, self._groups)
        made = {one.name for one in known}
        self._controllers = (
            *(one for one in known if one.name in names),
            *(make(config) for name, make in MAKERS.items() if name in names and name not in made),
        )

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        return tuple(dict.fromkeys(kind for one in self._controllers for kind in one.watches))

    def explain(self, key: Key, view: View, now: datetime) -> Explanation:
        """Raises LookupError if the object does not exist."""
        if key.kind == "Node":
            return explain_node(key, view, now, self._settings.rules)
        if key.kind == "Pod":
            groups = self._groups if self._groups in self._controllers else None
            return explain_pod(key, view, now, self._settings.rules, groups)
        if self._object(key, view) is None:
            raise LookupError(f"there is no {key.kind} {key.namespace}/{key.name}")
        if key.kind in ("Deployment", "StatefulSet"):
            running = self._deletion_cost if self._deletion_cost in self._controllers else None
            return explain_workload(
                key, view, now, placement=self._placement, settings=self._settings, deletion_cost=running
            )
        if key.kind == "NodeGroup":
            return explain_group(key, view, now, self._groups)
        return self._controller_decision(key, view, now)

    def _object(self, key: Key, view: View) -> Any:
        for resource in self.watches:
            if resource.kind == key.kind:
                return view[resource].get(key.namespace if resource.namespaced else "", key.name)
        return None

    def _controller_decision(self, key: Key, view: View, now: datetime) -> Explanation:
        obj = self._object(key, view)
        for controller in self._controllers:
            resource = next((one for one in controller.watches if one.kind == key.kind), None)
            keys = tuple(controller.keys(resource, obj, view)) if resource is not None else ()
            if not keys:
                continue
            # A container is decided together with all others of its node.
            decision = controller.decide(keys[0], view, now)
            keeps = controller.removal_blockers(key, view, now) if isinstance(controller, NodeGroupController) else ()
            waits = waiting_reason(obj) if isinstance(obj, WekaContainer) else None
            blockers = (*((waits,) if waits is not None else ()), *decision.blockers, *keeps)
            return DecisionExplanation(
                kind=key.kind, namespace=key.namespace, name=key.name, as_of=now, controller=controller.name,
                reason=decision.reason, steps=steps(decision), blockers=blockers,
                errors=tuple(problem.message for problem in decision.problems),
            )  # fmt: skip
        raise LookupError(f"no controller manages {key.kind} {key.namespace}/{key.name} in its current state")


def _explainable(config: Config) -> tuple[str, ...]:
    """All controllers, enabled or not. Allocation needs every namespace, so with watchNamespaces only if it is enabled."""
    partial = bool(config.operator.watch_namespaces)
    return tuple(
        name for name in MAKERS
        if name in config.controllers.enabled or not (partial and name == AllocationController.name)
    )  # fmt: skip


# Preferred if several namespaces have an object of that name, as in kubectl.
DEFAULT_NAMESPACE = "default"


def key_of(text: str, namespace: str, view: View) -> Key:
    """The key of a target such as `deploy/web`. Raises ValueError if it is malformed or ambiguous."""
    alias, slash, name = text.partition("/")
    kind = ALIASES.get(alias.lower())
    if not slash or not name or kind is None:
        kinds = ", ".join(sorted({kind.lower() for kind in ALIASES.values()}))
        raise ValueError(f'"{text}"; write it like deployment/web. Kinds: {kinds}')
    if kind == "Node":
        return Key(kind, "", name)
    if namespace:
        return Key(kind, namespace, name)
    found = [
        obj.namespace for store in view.stores() if store.resource.kind == kind for obj in store if obj.name == name
    ]
    if len(found) > 1 and DEFAULT_NAMESPACE not in found:
        raise ValueError(
            f"there is a {kind} {name} in several namespaces ({', '.join(sorted(found))}); choose one with -n NAMESPACE"
        )
    return Key(kind, found[0] if len(found) == 1 else DEFAULT_NAMESPACE, name)
