"""From what a person types (deploy/web, node/n1) to the answer about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from plimsoll.config import Config
from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.controllers.build import MAKERS, deletion_cost, node_groups, placement, placement_settings
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.explain.nodegroups import explain_group
from plimsoll.explain.nodes import explain_node
from plimsoll.explain.pods import explain_pod
from plimsoll.explain.records import Answer, DecisionAnswer, steps
from plimsoll.explain.workloads import explain_workload
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.runtime.decision import Controller

# As kubectl names them.
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
    """Every controller there is, asked and not acted upon."""

    def __init__(self, config: Config, names: Collection[str] | None = None) -> None:
        """names: of the controllers to ask, where the view holds no more than those look at."""
        names = _askable(config) if names is None else names
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

    def explain(self, key: Key, view: View, now: datetime) -> Answer:
        """Raises LookupError if there is no such object."""
        if key.kind == "Node":
            return explain_node(key, view, now, self._settings.rules)
        if key.kind == "Pod":
            groups = self._groups if self._groups in self._controllers else None
            return explain_pod(key, view, now, self._settings.rules, groups)
        if self._object(key, view) is None:
            raise LookupError(f"there is no {key.kind} {key.namespace}/{key.name}")
        if key.kind in ("Deployment", "StatefulSet"):
            return explain_workload(
                key, view, now, placement=self._placement, settings=self._settings, deletion_cost=self._deletion_cost
            )
        if key.kind == "NodeGroup":
            return explain_group(key, view, now, self._groups)
        return self._told_by_its_controller(key, view, now)

    def _object(self, key: Key, view: View) -> Any:
        for resource in self.watches:
            if resource.kind == key.kind:
                return view[resource].get(key.namespace if resource.namespaced else "", key.name)
        return None

    def _told_by_its_controller(self, key: Key, view: View, now: datetime) -> Answer:
        obj = self._object(key, view)
        for controller in self._controllers:
            resource = next((one for one in controller.watches if one.kind == key.kind), None)
            keys = tuple(controller.keys(resource, obj, view)) if resource is not None else ()
            if not keys:
                continue
            # A container is decided about together with all others of its node.
            decision = controller.decide(keys[0], view, now)
            keeps = controller.keeps(key, view, now) if isinstance(controller, NodeGroupController) else ()
            return DecisionAnswer(
                kind=key.kind, namespace=key.namespace, name=key.name, as_of=now, controller=controller.name,
                reason=decision.reason, steps=steps(decision), blockers=(*decision.blockers, *keeps),
                errors=tuple(problem.message for problem in decision.problems),
            )  # fmt: skip
        raise LookupError(f"no controller decides about {key.kind} {key.namespace}/{key.name} as it is now")


def _askable(config: Config) -> tuple[str, ...]:
    """Every controller, on or off; but one that a part of the namespaces is not enough for only where it is named."""
    partial = bool(config.operator.watch_namespaces)
    return tuple(
        name for name in MAKERS
        if name in config.controllers.enabled or not (partial and name == AllocationController.name)
    )  # fmt: skip


# Of several objects of one name, the one that kubectl would take; elsewhere a name alone must be enough.
DEFAULT_NAMESPACE = "default"


def key_of(text: str, namespace: str, view: View) -> Key:
    """The object that `deploy/web` means. Raises ValueError with what is wrong, and what could be meant."""
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
            f"there is a {kind} {name} in several namespaces ({', '.join(sorted(found))}); say which: -n NAMESPACE"
        )
    return Key(kind, found[0] if len(found) == 1 else DEFAULT_NAMESPACE, name)
