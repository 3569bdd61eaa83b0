"""A workload on spot and on-demand nodes, as the placement controller sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from plimsoll.controllers.placement.annotations import CLASS, REASON, PlacementReason
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.spot_backoff import SpotBackoff, backoff_shard
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.disruption.entries import KIND, Entry, disruption_shard
from plimsoll.kube.cache.store import Store, View
from plimsoll.kube.codec import convert
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.core import ConfigMap, Namespace, Node, NodeStatus, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Key,
    Resource,
)
from tests import build
from tests.build import START

SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND
SPOT_LABEL = {"karpenter.sh/capacity-type": "spot"}
MINUTE = timedelta(minutes=1)


def stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def spot_node(name: str = "spot-1", taint: str = "", **fields: Any) -> Node:
    return _node(name, SPOT_LABEL, taint, **fields)


def on_demand_node(name: str = "od-1", taint: str = "", **fields: Any) -> Node:
    return _node(name, {}, taint, **fields)


def _node(name: str, labels: Mapping[str, str], taint: str, effect: str = "NoSchedule", pods: int = 110) -> Node:
    node = build.node(name, labels=labels)
    body = msgspec.json.decode(msgspec.json.encode({"taints": [{"key": taint, "effect": effect}] if taint else []}))
    room = convert({"cpu": "64", "memory": "256Gi", "pods": str(pods)}, dict[str, Any])
    status = msgspec.structs.replace(node.status, allocatable=_resources(room), capacity=_resources(room))
    return msgspec.structs.replace(node, spec=convert(body, type(node.spec)), status=status)


def _resources(room: Mapping[str, str]) -> Any:
    return convert({"allocatable": dict(room)}, NodeStatus).allocatable


class Scene:
    """Replicas are added one by one; `decide` asks the controller. Everything is ready and settled unless said otherwise."""

    def __init__(
        self,
        *,
        replicas: int = 10,
        spot: str | None = "60%",
        minimum: str | None = "2",
        settings: PlacementSettings | None = None,
        stateful: bool = False,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        template: Mapping[str, Any] | None = None,
        status: Mapping[str, Any] | None = None,
    ) -> None:
        asked = {ENABLED: "true", SPOT_PERCENTAGE: spot, MIN_ON_DEMAND: minimum, **(annotations or {})}
        self.settings = settings or PlacementSettings()
        self.now = START
        body = {
            "metadata": build.metadata(
                "web", generation=3, labels=dict(labels or {}),
                annotations={key: value for key, value in asked.items() if value is not None},
            ),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main"}], **(template or {})},
                },
            },
            "status": {
                "observedGeneration": 3, "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
                "availableReplicas": replicas, "currentRevision": "web-a", "updateRevision": "web-a", **(status or {}),
            },
        }  # fmt: skip
        self.workload: Deployment | StatefulSet = convert(body, StatefulSet) if stateful else convert(body, Deployment)
        self.owner: KubeObject = self.workload
        self.objects: dict[Resource[Any], list[KubeObject]] = {
            resource: []
            for resource in (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES)
        }
        self.objects[self.settings.memory] = []
        self.objects[STATEFULSETS if stateful else DEPLOYMENTS].append(self.workload)
        if not stateful:
            self.owner = build.replica_set("web-1", replicas=replicas, owner=self.workload)
            self.objects[REPLICASETS].append(self.owner)
        self.objects[NODES] += [spot_node(), on_demand_node()]
        self.controller = PlacementController(self.settings)

    @property
    def key(self) -> Key:
        return Key(type(self.workload).__name__, "default", "web")

    def add(self, *objects: KubeObject) -> None:
        kinds: dict[type, Resource[Any]] = {
            Deployment: DEPLOYMENTS, StatefulSet: STATEFULSETS, ReplicaSet: REPLICASETS, Pod: PODS, Node: NODES,
            PodDisruptionBudget: BUDGETS, Namespace: NAMESPACES, ConfigMap: self.settings.memory,
        }  # fmt: skip
        for obj in objects:
            held = self.objects[kinds[type(obj)]]
            held[:] = [other for other in held if other.name != obj.name]
            held.append(obj)

    def running(self, spot: int, on_demand: int, **fields: Any) -> None:
        """So many ready replicas on the two nodes."""
        for name, count, mark in (("spot-1", spot, SPOT), ("od-1", on_demand, ON_DEMAND)):
            for number in range(count):
                self.pod(f"{name}-{number}", node=name, mark=mark, **fields)

    def pod(
        self,
        name: str,
        *,
        node: str = "",
        mark: CapacityClass | None = None,
        annotations: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Pod:
        marks = {CLASS: mark.value} if mark is not None else {}
        fields.setdefault("creationTimestamp", stamp(START - timedelta(hours=1)))
        made = build.pod(
            name,
            owner=self.owner,
            node=node,
            labels={"app": "web"},
            annotations={**marks, **(annotations or {})},
            **fields,
        )
        self.add(made)
        return made

    def waiting(
        self,
        name: str,
        *,
        since: datetime,
        created: datetime | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """A pod of class spot for which the scheduler has found no node."""
        made = build.pod(
            name, owner=self.owner, node="", phase="Pending", labels={"app": "web"}, annotations={CLASS: "spot", **(annotations or {})},
            creationTimestamp=stamp(created or since),
        )  # fmt: skip
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": stamp(since),
        }
        made = msgspec.structs.replace(
            made, status=convert({"phase": "Pending", "conditions": [condition]}, type(made.status))
        )
        self.add(made)
        return made

    def fallen_back(self, name: str, *, created: datetime) -> Pod:
        """A replica that got on-demand because spot had run short."""
        return self.pod(
            name,
            node="od-1",
            mark=ON_DEMAND,
            annotations={REASON: PlacementReason.HELD_BACK.value},
            creationTimestamp=stamp(created),
        )

    def disrupted(self, *moments: datetime, workload: Key | None = None) -> None:
        """What was written down before each eviction."""
        key = workload or self.key
        data = {
            f"gone-{number}-{key.name}": msgspec.json.encode(Entry(key, f"default/gone-{number}", moment)).decode()
            for number, moment in enumerate(moments)
        }
        self.remember(disruption_shard(key), KIND, data)

    def backs_off(self, *, since: datetime, until: datetime, shortages: int = 1) -> None:
        record = SpotBackoff(self.key, since, until, shortages)
        self.remember(
            backoff_shard(self.workload.uid), "placement", {self.workload.uid: msgspec.json.encode(record).decode()}
        )

    def remember(self, name: str, kind: str, data: Mapping[str, str]) -> None:
        meta = build.metadata(name, self.settings.namespace, labels={LABEL: kind})
        self.add(convert({"metadata": meta, "data": dict(data)}, ConfigMap))

    def view(self) -> View:
        return View.of(self.objects)

    def decide(self, *, after: timedelta = timedelta(0)) -> PlacementDecision:
        return self.controller.decide(self.key, self.view(), self.now + after)


def codes(decision: PlacementDecision) -> list[str]:
    return [blocker.code for blocker in decision.blockers]


def evicted(decision: PlacementDecision) -> list[str]:
    return [action.pod.name for action in decision.actions if hasattr(action, "pod")]


def namespace(annotations: Mapping[str, str]) -> Namespace:
    return convert({"metadata": build.metadata("default", "", annotations=dict(annotations))}, Namespace)


def stores(objects: Mapping[Resource[Any], Iterable[KubeObject]]) -> dict[Resource[Any], Store[Any]]:
    made: dict[Resource[Any], Store[Any]] = {}
    for resource, items in objects.items():
        store = made[resource] = Store(resource)
        store.synced = True
        for item in items:
            store.put(item)
    return made


def drifted(**fields: object) -> Scene:
    """Ten replicas of which six should be on spot, and three are."""
    scene = Scene(**fields)  # type: ignore[arg-type]
    scene.running(3, 7)
    return scene
