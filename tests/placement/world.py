"""A small model of a cluster around the placement controller: a ReplicaSet, a scheduler, kubelets, budgets, nodes that come and
go, and time. The controller and the ledger of disruptions are the real ones, and whatever they do is judged as it happens.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from plimsoll.controllers.placement.annotations import CLASS, REASON, PlacementReason
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision
from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.replica_counts import count, replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.spot_backoff import spot_blocker
from plimsoll.controllers.placement.target import CapacityClass, Target
from plimsoll.controllers.placement.workload import Managed, evaluate_workload
from plimsoll.disruption.entries import KIND, Entry, disruption_shard, read_entry
from plimsoll.disruption.ledger import Disruption, DisruptionLedger
from plimsoll.disruption.pdb import ignores_budgets
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import ConfigMap, Node, Pod
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
from plimsoll.kube.workloads import pods_of
from plimsoll.runtime.decision import Create, DisruptionLimits, Evict, Patch
from tests import build
from tests.build import START
from tests.placement.scene import SPOT_LABEL, stamp, stores

SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND
TICK = timedelta(seconds=15)
ITN = "aws-node-termination-handler/spot-itn"


class World:
    def __init__(
        self,
        *,
        count: int,
        percentage: int,
        minimum: int,
        budget: int | None,
        settings: PlacementSettings,
        limits: DisruptionLimits,
    ) -> None:
        self.now = START
        self.settings = settings
        self.limits = limits
        self.percentage, self.minimum, self.budget = percentage, minimum, budget
        kinds = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES)
        self.stores = stores(dict.fromkeys((*kinds, settings.memory), ()))
        self.view = View(self.stores)
        self._serial = itertools.count(1)
        self.spot_open = True  # whether spot nodes take pods
        self.webhook = True
        self.undone = False  # whether someone sends every new pod to on-demand nodes, whatever it was given
        self.evictions: list[tuple[str, str]] = []  # UID of the pod, and why
        self.writes = 0
        self._unready_until: dict[str, datetime] = {}
        self.deployment_uid = f"uid-web-{next(self._serial)}"
        self._deployment(count)
        self.stores[REPLICASETS].put(self._replica_set(count))
        for zone in "ab":
            self._node(f"spot-{zone}", SPOT_LABEL)
            self._node(f"od-{zone}", {})
        self.restart()
        self._count_budget()

    # ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────

    def restart(self) -> None:
        """A new process: it knows what was written down, and nothing else."""
        self.controller = PlacementController(self.settings)
        self.ledger = DisruptionLedger(self.limits, longest_period=self.settings.migrations.period)
        found = []
        for shard in self.stores[self.settings.memory]:
            if shard.labels.get(LABEL) == KIND:
                for uid, text in shard.data.items():
                    entry = read_entry(text)
                    assert entry is not None
                    found.append(Disruption(entry.workload, entry.pod, uid, (entry.at - START).total_seconds()))
        self.ledger.recall(found)

    @property
    def key(self) -> Key:
        return Key("Deployment", "default", "web")

    def operate(self) -> PlacementDecision:
        decision = self.controller.decide(self.key, self.view, self.now)
        for action in decision.actions:
            match action:
                case Evict():
                    self._evict(action)
                case Create() | Patch():
                    self._write(action)
                case _:
                    raise AssertionError(action)
        return decision

    def _write(self, action: Create | Patch) -> None:
        self.writes += 1
        name = action.name if isinstance(action, Create) else action.target.name
        kind = "placement"
        before = self.stores[self.settings.memory].get(self.settings.namespace, name)
        body: Any = action.body
        data = {**(before.data if before is not None else {}), **body["data"]}
        self._remember(name, kind, {uid: text for uid, text in data.items() if text is not None})

    def _remember(self, name: str, kind: str, data: dict[str, str]) -> None:
        meta = build.metadata(name, self.settings.namespace, labels={LABEL: kind})
        meta["uid"] = name
        self.stores[self.settings.memory].put(convert({"metadata": meta, "data": data}, ConfigMap))

    def _evict(self, action: Evict) -> None:
        pod = self.stores[PODS].get("default", action.pod.name)
        assert pod is not None and pod.uid == action.pod.uid, "decided about a pod that is not there"
        seconds = (self.now - START).total_seconds()
        refusal = self.ledger.refusal(pod, self.view, seconds, workload=action.workload, within=action.within)
        if refusal is not None:
            return
        if not ignores_budgets(pod):
            self._judge(pod, action)
            name = disruption_shard(self.key)
            before = self.stores[self.settings.memory].get(self.settings.namespace, name)
            entry = msgspec.json.encode(Entry(self.key, f"default/{pod.name}", self.now)).decode()
            self._remember(name, KIND, {**(before.data if before is not None else {}), pod.uid: entry})
            self.ledger.enter(Disruption(self.key, f"default/{pod.name}", pod.uid, seconds))
        self.evictions.append((pod.uid, action.why.code))
        gone = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now))
        self.stores[PODS].put(gone)
        self._count_budget()

    def _judge(self, pod: Pod, action: Evict) -> None:
        """What must hold at the very moment at which a pod that runs is asked to leave (S4, S5, S13)."""
        ready = [p for p in self.pods() if p.ready and p.uid != pod.uid]
        wanted = self.workload.spec.replicas
        if pod.ready:
            assert ready, "nobody is left ready"
            if self.budget is not None:
                assert len(ready) >= wanted - self.budget, "S4: beyond the budget"
            else:
                assert len(ready) >= wanted - 1, "S4: without a budget, two are missing"
            if self.class_of(pod) is ON_DEMAND:
                left = sum(1 for p in ready if self.class_of(p) is ON_DEMAND)
                assert left >= self.minimum, "S13: the minimum is not ready"
        period = self.limits.period
        lately = [e for e in self.written_down() if e.at > self.now - period]
        assert len(lately) < min(self.limits.per_workload, self.limits.per_cluster), "S5: too many in the period"
        if action.within is not None:
            lately = [e for e in self.written_down() if e.at > self.now - action.within.period]
            assert len(lately) < action.within.per_workload, "S5: too many moves in the period"
            last = max((e.at for e in self.written_down()), default=None)
            together = last == self.now  # several at once, where that is configured
            assert last is None or together or self.now - last >= self.settings.cooldown, "the cooldown is not over"

    def written_down(self) -> list[Entry]:
        return [
            entry
            for shard in self.stores[self.settings.memory]
            if shard.labels.get(LABEL) == KIND
            for text in shard.data.values()
            if (entry := read_entry(text)) is not None
        ]

    # ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def workload(self) -> Deployment:
        found: Deployment = next(iter(self.stores[DEPLOYMENTS]))
        return found

    @property
    def replica_set(self) -> ReplicaSet:
        found: ReplicaSet = next(iter(self.stores[REPLICASETS]))
        return found

    def pods(self) -> list[Pod]:
        """The active ones."""
        return [
            p
            for p in self.stores[PODS].by(BY_OWNER, owner_key(self.replica_set.namespace, self.replica_set.uid))
            if not p.terminating and not p.finished
        ]

    def class_of(self, pod: Pod) -> CapacityClass:
        node = self.stores[NODES].get("", pod.spec.node_name)
        return self.settings.rules.of_labels(node.labels) if node is not None else ON_DEMAND

    def tick(self, span: timedelta = TICK) -> None:
        """Time passes: pods that were told to go are gone, missing ones come, those that wait find a node, bound ones run."""
        self.now += span
        for pod in list(self.stores[PODS]):
            if pod.terminating:
                self.stores[PODS].remove("default", pod.name)
        self._replicate()
        self._schedule()
        for pod in self.pods():
            if pod.spec.node_name and not pod.ready and self.now >= self._unready_until.get(pod.uid, START):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}
                status = convert({"phase": "Running", "conditions": [ready]}, type(pod.status))
                self.stores[PODS].put(replace(pod, status=status))
        self._count_budget()
        self._deployment(self.workload.spec.replicas)

    def _replicate(self) -> None:
        wanted = self.workload.spec.replicas
        active = self.pods()
        for _ in range(wanted - len(active)):
            self._create()
        # As the ReplicaSet controller has it: without a node, not ready, then the youngest.
        active.sort(key=lambda p: (p.spec.node_name != "", p.ready, -(p.ready_since or START).timestamp(), p.name))
        for pod in active[: max(0, len(active) - wanted)]:
            self.stores[PODS].remove("default", pod.name)

    def _create(self) -> None:
        name = f"web-{next(self._serial)}"
        marks: dict[str, str] = {}
        verdict = evaluate_workload(self.workload, self.settings)
        if self.webhook and isinstance(verdict, Managed):
            counts = count(replicas(pods_of(self.replica_set, self.view), self.view, self.settings.rules))
            wanted, why = (
                ReplicaState(counts.spot, counts.on_demand, verdict.target).next_class(),
                PlacementReason.SHARE,
            )
            found = replicas(pods_of(self.workload, self.view), self.view, self.settings.rules)
            if wanted is SPOT and spot_blocker(self.workload.uid, found, self.view, self.now, self.settings):
                wanted, why = ON_DEMAND, PlacementReason.HELD_BACK
            marks = {CLASS: wanted.value, REASON: why.value}
        self.stores[PODS].put(
            build.pod(
                name, owner=self.replica_set, node="", phase="Pending", labels={"app": "web"}, annotations=marks,
                creationTimestamp=stamp(self.now),
            )
        )  # fmt: skip

    def _schedule(self) -> None:
        for pod in self.pods():
            if pod.spec.node_name:
                continue
            node = self._place(pod)
            if node is not None:
                self.stores[PODS].put(replace(pod, spec=replace(pod.spec, node_name=node)))
            elif not pod.status.conditions:
                waits = {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "lastTransitionTime": stamp(self.now),
                }  # fmt: skip
                status = convert({"phase": "Pending", "conditions": [waits]}, type(pod.status))
                self.stores[PODS].put(replace(pod, status=status))

    def _place(self, pod: Pod) -> str | None:
        mark = ON_DEMAND.value if self.undone else pod.annotations.get(CLASS)
        able = []
        for node in self.stores[NODES]:
            here = self.settings.rules.of_labels(node.labels)
            taken = sum(1 for p in self.stores[PODS].by(BY_NODE, node.name) if not p.terminating)
            if not node.spec.unschedulable and not node.spec.taints and mark in (None, here.value) and taken < 60:
                able.append((taken, node.name))
        return min(able)[1] if able else None

    def _count_budget(self) -> None:
        if self.budget is None:
            return
        healthy = sum(1 for pod in self.pods() if pod.ready)
        desired = self.workload.spec.replicas - self.budget
        budget = build.budget(
            selector={"matchLabels": {"app": "web"}},
            allowed=max(0, healthy - desired),
            healthy=healthy,
            desired=desired,
        )
        self.stores[BUDGETS].put(_same(budget))

    def _deployment(self, count: int) -> None:
        existing = next(iter(self.stores[REPLICASETS]), None)
        ready = sum(1 for pod in self.pods() if pod.ready) if existing is not None else 0
        there = len(self.pods()) if existing is not None else 0
        meta = build.metadata(
            "web", generation=1,
            annotations={ENABLED: "true", SPOT_PERCENTAGE: f"{self.percentage}%", MIN_ON_DEMAND: str(self.minimum)},
        )  # fmt: skip
        meta["uid"] = self.deployment_uid
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
        status = {
            "observedGeneration": 1, "replicas": there, "updatedReplicas": there, "readyReplicas": ready,
            "availableReplicas": ready,
        }  # fmt: skip
        spec = {"replicas": count, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        self.stores[DEPLOYMENTS].put(convert({"metadata": meta, "spec": spec, "status": status}, Deployment))

    def _replica_set(self, count: int) -> ReplicaSet:
        made = build.replica_set("web-1", replicas=count, owner=self.workload)
        return replace(made, metadata=replace(made.metadata, uid="uid-web-1"))

    def _node(self, name: str, labels: dict[str, str]) -> None:
        self.stores[NODES].put(build.node(name, labels=labels))

    # ── what happens to a cluster ────────────────────────────────────────────────────────────────────────────────────

    def scale(self, count: int) -> None:
        self._deployment(count)

    def ask_for(self, percentage: int, minimum: int) -> None:
        self.percentage, self.minimum = percentage, minimum
        self._deployment(self.workload.spec.replicas)

    def open_spot(self, is_open: bool) -> None:
        self.spot_open = is_open
        for node in list(self.stores[NODES]):
            if node.name.startswith("spot"):
                self.stores[NODES].put(replace(node, spec=replace(node.spec, unschedulable=not is_open)))

    def interrupt(self, zone: str) -> None:
        node: Node = self.stores[NODES].get("", f"spot-{zone}")  # type: ignore[assignment]
        spec = convert({"taints": [{"key": ITN, "effect": "NoSchedule"}]}, type(node.spec))
        self.stores[NODES].put(replace(node, spec=spec))

    def lose(self, zone: str) -> None:
        """The node goes with its pods, and an empty one takes its place."""
        name = f"spot-{zone}"
        for pod in self.stores[PODS].by(BY_NODE, name):
            self.stores[PODS].remove("default", pod.name)
        self.stores[NODES].remove("", name)
        self._node(name, SPOT_LABEL)
        self.open_spot(self.spot_open)

    def lose_pod(self, number: int) -> None:
        active = self.pods()
        if active:
            self.stores[PODS].remove("default", active[number % len(active)].name)

    def fail_probe(self, number: int) -> None:
        """A pod is not ready for some minutes."""
        active = [pod for pod in self.pods() if pod.ready]
        if active:
            pod = active[number % len(active)]
            self._unready_until[pod.uid] = self.now + timedelta(minutes=4)
            failing = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(self.now)}
            status = convert({"phase": "Running", "conditions": [failing]}, type(pod.status))
            self.stores[PODS].put(replace(pod, status=status))
            self._count_budget()
            self._deployment(self.workload.spec.replicas)

    def split(self) -> Target:
        classes = [self.class_of(pod) for pod in self.pods() if pod.ready]
        return Target(classes.count(SPOT), classes.count(ON_DEMAND))


def _same(budget: PodDisruptionBudget) -> PodDisruptionBudget:
    """The same budget each time it is counted."""
    return replace(budget, metadata=replace(budget.metadata, uid="uid-budget"))
