"""Several workloads that compete for few places on spot nodes, which come and go; moves are carried out, or not.

Every node and every workload has a size of its own, so that no two places are equally good and each answer is the only one.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision, PlacementState
from plimsoll.controllers.placement.rebalance.capacity_check import of_class
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.disruption.entries import KIND, Entry, disruption_shard
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.apps import Deployment, StatefulSet
from plimsoll.kube.types.core import ConfigMap, Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_NODE,
    BY_OWNER,
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Key,
    owner_key,
)
from plimsoll.runtime.decision import DisruptionLimits, Evict
from plimsoll.scheduling.growth_options import GrowthOptions
from plimsoll.scheduling.model import NodeOffering, Template
from tests import build
from tests.build import START
from tests.placement.scene import SPOT_LABEL, stamp, stores
from tests.placement.uncached import UncachedCapacity, uncached_controller

ZONE = "topology.kubernetes.io/zone"
# What the operator itself moves away from, what it only does not move to, and what is none of its business.
TAINTS = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "someone/else")


class MakesNodes:
    """One kind of spot node, of which a few more could be made."""

    def __init__(self, nodes: int) -> None:
        room = convert(
            {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "3"}}, type(build.node("n").status)
        ).allocatable
        offering = NodeOffering("small", {**SPOT_LABEL, ZONE: "a"}, room, 1.0)
        self._prospects = GrowthOptions((Template("more", (offering,), max_nodes=nodes),))

    def growth_options(self, *_: object) -> GrowthOptions:
        return self._prospects


class Fleet:
    def __init__(self, workloads: int, *, moving_percentage: int = 0, more_nodes: int = 0) -> None:
        limits = DisruptionLimits(6, 60, timedelta(minutes=10))
        self.settings = PlacementSettings(
            cooldown=timedelta(seconds=5), moving_percentage=moving_percentage, migrations=limits
        )
        kinds = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES)
        self.stores = stores(dict.fromkeys((*kinds, self.settings.memory), ()))
        self.view, self.now = View(self.stores), START
        self.maker = MakesNodes(more_nodes) if more_nodes else None
        self.controller = PlacementController(self.settings, PlacementState(self.settings, self.maker))
        self.uncached_capacity = UncachedCapacity(self.maker)
        self._serial = itertools.count(1)
        self.names = [f"web-{number}" for number in range(workloads)]
        self.asked: dict[str, list[str]] = {}  # by workload: the pods that the last decision asked to leave
        self.blocked: set[str] = set()  # every code that was met
        self.moved = 0
        self.stores[NODES].put(self._node("od-1", {"karpenter.sh/capacity-type": "on-demand"}, pods=200, cpu=200))
        for name in self.names:
            self._make(name)
        for _ in range(2):
            self.add_node()

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, number: int) -> None:
        """Both ways; they must agree in everything that a decision says."""
        key = self._key(self._named(number))
        uncached = uncached_controller(self.settings, self.maker, self.uncached_capacity)
        expected = uncached.decide(key, self.view, self.now)
        decision: PlacementDecision = self.controller.decide(key, self.view, self.now)
        assert decision == expected
        self.asked[key.name] = [action.pod.name for action in decision.actions if isinstance(action, Evict)]
        self.blocked.update(blocker.code for blocker in decision.blockers)
        self.moved += len(self.asked[key.name])

    # ── what becomes of a decision ───────────────────────────────────────────────────────────────────────────────────

    def evict(self, number: int) -> None:
        """One of the pods that were asked to leave terminates, and that is written down."""
        name = self._named(number)
        if asked := self.asked.get(name):
            pod = self.stores[PODS].get("default", asked.pop(0))
            if pod is not None and not pod.terminating:
                self.stores[PODS].put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now)))
                self._write_down(name, pod)
                self._counted(name)

    def let_go(self, number: int) -> None:
        for pod in self._pods(name := self._named(number)):
            if pod.terminating:
                self.stores[PODS].remove("default", pod.name)
        self._counted(name)

    def replace(self, number: int) -> None:
        """The owner makes up for one that is missing: without a node at first, and sent to spot."""
        name = self._named(number)
        workload = self._workload(name)
        if workload is not None and len(self._active(name)) < workload.spec.replicas:
            self._pod(name, node="", spot=True)
            self._counted(name)

    def bind(self, number: int) -> None:
        """The scheduler finds a node for one that waits."""
        name = self._named(number)
        waiting = next((pod for pod in self._active(name) if not pod.spec.node_name), None)
        if waiting is None:
            return
        for node in self.stores[NODES]:
            taken = self.stores[PODS].by(BY_NODE, node.name)
            if node.name.startswith("spot") and not node.spec.taints and len(taken) < self._room[node.name]:
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}
                status = convert({"phase": "Running", "conditions": [ready]}, type(waiting.status))
                self.stores[PODS].put(replace(waiting, spec=replace(waiting.spec, node_name=node.name), status=status))
                self._counted(name)
                return

    # ── what happens by itself ───────────────────────────────────────────────────────────────────────────────────────

    def wait(self, number: int) -> None:
        self.now += timedelta(seconds=1 + 7 * (number % 6))

    def lose_pod(self, number: int) -> None:
        pods = self._active(name := self._named(number))
        if pods:
            self.stores[PODS].remove("default", pods[number % len(pods)].name)
            self._counted(name)

    def scale(self, number: int) -> None:
        name = self._named(number)
        self._put(name, 2 + number % 4)

    def delete(self, number: int) -> None:
        """The workload goes with its pods; another one of its name takes its place."""
        name = self._named(number)
        for pod in self._pods(name):
            self.stores[PODS].remove("default", pod.name)
        for store in (DEPLOYMENTS, STATEFULSETS):
            self.stores[store].remove("default", name)
        self.stores[REPLICASETS].remove("default", f"{name}-1")
        if number % 2:
            self._make(name)

    def roll_out(self, number: int) -> None:
        """Its ReplicaSet is gone from the view, and another one owns nobody yet."""
        name = self._named(number)
        if self.stores[DEPLOYMENTS].get("default", name) is not None:
            self.stores[REPLICASETS].remove("default", f"{name}-1")
            if number % 2:
                self.stores[REPLICASETS].put(build.replica_set(f"{name}-1", owner=self._workload(name)))

    def cover(self, number: int) -> None:
        """Its budget allows one more pod to leave, or none; every third workload has a second one at times."""
        name = self._named(number)
        self.stores[BUDGETS].put(_budget(name, {"matchLabels": {"app": name}}, allowed=number % 2))
        everyone = {"matchExpressions": [{"key": "third", "operator": "In", "values": ["yes"]}]}
        if number % 5 == 0:
            self.stores[BUDGETS].put(_budget("everyone", everyone, allowed=1))
        else:
            self.stores[BUDGETS].remove("default", "everyone")

    def add_node(self, number: int = 0) -> None:
        serial = next(self._serial)
        self.stores[NODES].put(self._node(f"spot-{serial}", SPOT_LABEL, pods=1 + (serial + number) % 3))

    def remove_node(self, number: int) -> None:
        node = self._spot_node(number)
        if node is not None:
            self.stores[NODES].remove("", node.name)
            if number % 2:
                for pod in self.stores[PODS].by(BY_NODE, node.name):
                    self.stores[PODS].remove("default", pod.name)

    def taint(self, number: int) -> None:
        node = self._spot_node(number)
        if node is not None:
            taints = [{"key": TAINTS[number % 3], "effect": "NoSchedule"}] if not node.spec.taints else []
            self.stores[NODES].put(replace(node, spec=convert({"taints": taints}, type(node.spec))))

    def heartbeat(self, number: int) -> None:
        node = self._spot_node(number)
        if node is not None:
            self.stores[NODES].put(replace(node, metadata=replace(node.metadata, resource_version=str(number))))

    def copy(self, _: int) -> None:
        """The same cluster, in stores that the controller has not met before."""
        self.stores = {store.resource: store.copy() for store in self.view.stores()}
        self.view = View(self.stores)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _named(self, number: int) -> str:
        return self.names[number % len(self.names)]

    def _key(self, name: str) -> Key:
        return Key("StatefulSet" if self._ordinal(name) else "Deployment", "default", name)

    def _ordinal(self, name: str) -> bool:
        return self.names.index(name) % 4 == 3

    def _workload(self, name: str) -> Any:
        return self.stores[STATEFULSETS if self._ordinal(name) else DEPLOYMENTS].get("default", name)

    def _make(self, name: str) -> None:
        self._uid = f"uid-{name}-{next(self._serial)}"
        self._put(name, 4, uid=self._uid)
        if not self._ordinal(name):
            self.stores[REPLICASETS].put(build.replica_set(f"{name}-1", replicas=4, owner=self._workload(name)))
        for _ in range(4):
            self._pod(name, node="od-1")
        self._counted(name)

    def _put(self, name: str, replicas: int, uid: str = "") -> None:
        held = self._workload(name)
        if held is None and not uid:
            return
        active = self._active(name) if held is not None else []
        ready = sum(1 for pod in active if pod.ready)
        meta = build.metadata(name, generation=1, annotations={ENABLED: "true", SPOT_PERCENTAGE: "75%"})
        body = {
            "metadata": {**meta, "uid": uid or held.uid},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": self._labels(name)}, "spec": self._spec(name)},
            },
            "status": {
                "observedGeneration": 1, "replicas": len(active), "updatedReplicas": len(active), "readyReplicas": ready,
                "availableReplicas": ready, "currentRevision": "a", "updateRevision": "a",
            },
        }  # fmt: skip
        kind = (STATEFULSETS, StatefulSet) if self._ordinal(name) else (DEPLOYMENTS, Deployment)
        self.stores[kind[0]].put(convert(body, kind[1]))

    def _counted(self, name: str) -> None:
        """Its status says what there is, as its controller would have it."""
        held = self._workload(name)
        if held is not None:
            self._put(name, held.spec.replicas)

    def _labels(self, name: str) -> dict[str, str]:
        return {"app": name, "third": "yes" if self.names.index(name) % 3 == 0 else "no"}

    def _spec(self, name: str) -> dict[str, Any]:
        """Every second one has a rule about its own kind."""
        number = self.names.index(name)
        selector = {"matchLabels": {"app": name}}
        rules: dict[str, Any] = {}
        if number % 4 == 1:
            apart = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
            away = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
            rules = {"affinity": {"podAntiAffinity": away}}
        elif number % 4 == 2:
            even = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            rules = {"topologySpreadConstraints": [even]}
        requests = {"cpu": f"{100 + 10 * number}m", "memory": f"{64 + number}Mi"}
        return {"containers": [{"name": "main", "resources": {"requests": requests}}], **rules}

    def _pod(self, name: str, *, node: str, spot: bool = False) -> None:
        owner: KubeObject | None = self._workload(name)
        number = next(self._serial)
        if owner is not None and self._ordinal(name):
            taken = {int(pod.name.rpartition("-")[2]) for pod in self._pods(name)}
            number = next(ordinal for ordinal in itertools.count() if ordinal not in taken)
        elif owner is not None:
            owner = self.stores[REPLICASETS].get("default", f"{name}-1")
        if owner is None:
            return
        made = build.pod(
            f"{name}-{number}", owner=owner, node=node, labels=self._labels(name), spec=self._spec(name),
            annotations={CLASS: "spot"} if spot else {}, phase="Running" if node else "Pending",
            creationTimestamp=stamp(self.now),
        )  # fmt: skip
        if spot:  # as admission gives it, so that it is no other class of pod than the one that was promised a place
            rules = self.settings.rules.in_use([SPOT_LABEL])
            made = replace(made, spec=of_class(made.spec, CapacityClass.SPOT, rules))
        self.stores[PODS].put(made)

    def _pods(self, name: str) -> tuple[Pod, ...]:
        if self._ordinal(name):
            workload = self._workload(name)
            return (
                self.stores[PODS].by(BY_OWNER, owner_key(workload.namespace, workload.uid))
                if workload is not None
                else ()
            )
        owner = self.stores[REPLICASETS].get("default", f"{name}-1")
        return self.stores[PODS].by(BY_OWNER, owner_key(owner.namespace, owner.uid)) if owner is not None else ()

    def _active(self, name: str) -> list[Pod]:
        return [pod for pod in self._pods(name) if not pod.terminating]

    def _node(self, name: str, labels: dict[str, str], *, pods: int, cpu: int = 4) -> Node:
        serial = next(self._serial)
        made = build.node(name, zone="ab"[serial % 2], labels=labels)
        room = {"cpu": f"{1000 * cpu + 7 * serial}m", "memory": f"{8192 + 13 * serial}Mi", "pods": str(pods)}
        status = convert({"allocatable": room, "capacity": room}, type(made.status))
        return replace(made, status=replace(made.status, allocatable=status.allocatable, capacity=status.capacity))

    def _spot_node(self, number: int) -> Node | None:
        found = [node for node in self.stores[NODES] if node.name.startswith("spot")]
        return found[number % len(found)] if found else None

    @property
    def _room(self) -> dict[str, int]:
        return {node.name: node.status.allocatable["pods"] // 1000 for node in self.stores[NODES]}

    def _write_down(self, name: str, pod: Pod) -> None:
        key, memory = self._key(name), self.stores[self.settings.memory]
        shard = disruption_shard(key)
        before = memory.get(self.settings.namespace, shard)
        text = msgspec.json.encode(Entry(key, f"default/{pod.name}", self.now)).decode()
        meta = {**build.metadata(shard, self.settings.namespace, labels={LABEL: KIND}), "uid": shard}
        data = {**(before.data if before is not None else {}), pod.uid: text}
        memory.put(convert({"metadata": meta, "data": data}, ConfigMap))


def _budget(name: str, selector: dict[str, Any], *, allowed: int) -> PodDisruptionBudget:
    made = build.budget(name, selector=selector, allowed=allowed)
    return replace(made, metadata=replace(made.metadata, uid=f"budget-{name}"))
