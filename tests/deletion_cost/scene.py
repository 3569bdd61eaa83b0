"""A Deployment with its pods in zones, decided about and changed without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithm, Algorithms
from plimsoll.controllers.deletion_cost.algorithms.zone import Zone
from plimsoll.controllers.deletion_cost.controller import DeletionCostController, DeletionCostDecision
from plimsoll.controllers.deletion_cost.spec import ENABLED, HIGHEST_COST, DeletionCostSettings
from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from plimsoll.runtime.decision import Patch
from tests import build

T = TypeVar("T", bound=KubeObject)

TOP = HIGHEST_COST
ZONE_LABEL = "topology.kubernetes.io/zone"


def our_value(
    cost: int, kind: str = "zone", spread_by: str = ZONE_LABEL, rewritten: datetime | None = None
) -> dict[str, str]:
    """The annotations of a pod that carries a value of ours."""
    mark: dict[str, Any] = {"cost": cost, "type": kind, "spreadBy": spread_by}
    if rewritten is not None:
        mark["rewritten"] = rewritten.isoformat()
    return {COST: str(cost), VALUE_RECORD: msgspec.json.encode(mark).decode()}


def foreign_value(cost: int | str) -> dict[str, str]:
    return {COST: str(cost)}


class Scene:
    """One Deployment, a ReplicaSet, and a node in each zone; `now` is when decisions are made."""

    def __init__(
        self,
        annotations: Mapping[str, str] | None = None,
        *,
        settings: DeletionCostSettings | None = None,
        algorithms: Mapping[str, Algorithm] | None = None,
        failures: Mapping[str, str] | None = None,
    ) -> None:
        self.now = build.START
        self.deployment = build.deployment("web", annotations={ENABLED: "true"} if annotations is None else annotations)
        self.replica_sets: dict[str, ReplicaSet] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.add_replica_set("web-1")
        self.controller = DeletionCostController(
            settings or DeletionCostSettings(), Algorithms(algorithms or {"zone": Zone()}, failures or {})
        )

    # ── making ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_replica_set(self, name: str) -> ReplicaSet:
        made = build.replica_set(name, owner=self.deployment, replicas=0)
        self.replica_sets[name] = made
        return made

    def add_node(self, name: str, **fields: Any) -> Node:
        self.nodes[name] = build.node(name, **fields)
        return self.nodes[name]

    def add(self, name: str, zone: str = "", *, of: str = "web-1", node: str | None = None, **fields: Any) -> Pod:
        """A pod in a zone, on the zone's only node; its ReplicaSet wants as many pods as it then has."""
        if zone and f"node-{zone}" not in self.nodes:
            self.add_node(f"node-{zone}", zone=zone)
        where = f"node-{zone}" if node is None else node
        self.pods[name] = build.pod(name, owner=self.replica_sets[of], node=where, **fields)
        self.want(of)
        return self.pods[name]

    def add_with_values(self, **zones: list[int]) -> None:
        """Pods named after zone and position, with values of ours: `add_with_values(a=[TOP, TOP - 1])`."""
        for zone, values in zones.items():
            for position, value in enumerate(values):
                self.add(f"{zone}{position}", zone, annotations=our_value(value))

    def want(self, replica_set: str, replicas: int | None = None) -> None:
        """Set what the ReplicaSet wants: by default as many pods as it has."""
        its = self.replica_sets[replica_set]
        have = sum(1 for pod in self.pods.values() if pod.metadata.owner_references[0].uid == its.uid)
        spec = replace(its.spec, replicas=have if replicas is None else replicas)
        self.replica_sets[replica_set] = replace(its, spec=spec)

    def remove(self, name: str) -> None:
        del self.pods[name]
        self.want("web-1")

    def annotate(self, **annotations: str | None) -> None:
        """Change the Deployment's annotations by the last part of their names: `annotate(spread_by="rack")`."""
        changed = dict(self.deployment.annotations)
        for name, value in annotations.items():
            key = "pod-deletion-cost.lablabs.io/" + name.replace("_", "-")
            changed.pop(key, None)
            if value is not None:
                changed[key] = value
        self.deployment = _annotated(self.deployment, changed)

    def annotate_pod(self, name: str, **annotations: str | None) -> None:
        keys = {"cost": COST, "mark": VALUE_RECORD}
        self._merge(name, {keys[short]: value for short, value in annotations.items()})

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def view(self) -> View:
        return View.of(
            {
                DEPLOYMENTS: [self.deployment],
                REPLICASETS: self.replica_sets.values(),
                PODS: self.pods.values(),
                NODES: self.nodes.values(),
            }
        )

    def decide(self, after: timedelta = timedelta()) -> DeletionCostDecision:
        self.now += after
        return self.controller.decide(DEPLOYMENTS.key(self.deployment), self.view, self.now)

    def carry_out(self, decision: DeletionCostDecision) -> None:
        for action in decision.actions:
            assert isinstance(action, Patch)
            assert isinstance(action.body, dict)
            assert self.pods[action.target.name].uid == action.target.uid
            self._merge(action.target.name, action.body["metadata"]["annotations"])

    def settle(self) -> int:
        """Decide and carry out until nothing is left to do; how many writes it took."""
        writes = 0
        for _ in range(100):
            decision = self.decide()
            writes += len(decision.actions)
            self.carry_out(decision)
            if not decision.actions:
                return writes
        raise AssertionError("it never comes to rest")

    @property
    def costs(self) -> dict[str, int]:
        return {name: int(pod.annotations[COST]) for name, pod in self.pods.items() if COST in pod.annotations}

    def _merge(self, name: str, changes: Mapping[str, str | None]) -> None:
        merged = {**self.pods[name].annotations, **changes}
        self.pods[name] = _annotated(
            self.pods[name], {key: value for key, value in merged.items() if value is not None}
        )


def written(decision: DeletionCostDecision) -> dict[str, int]:
    """The values that a decision writes, by pod name."""
    costs = {}
    for action in decision.actions:
        assert isinstance(action, Patch)
        assert isinstance(action.body, dict)
        costs[action.target.name] = int(action.body["metadata"]["annotations"][COST])
    return costs


def _annotated(obj: T, annotations: Mapping[str, str]) -> T:
    return replace(obj, metadata=replace(obj.metadata, annotations=dict(annotations)))
