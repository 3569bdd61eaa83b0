"""A Deployment that lives through things: replicas are lost, moved, rolled out and scaled, and each change is seen by whoever
writes deletion costs.

Deletion follows the ReplicaSet controller's own ranking. The scheduler spreads softly: mostly it takes the emptiest zone, at
times any other, as `whenUnsatisfiable: ScheduleAnyway` does when zones differ in room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Protocol

from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.replicaset_ranking import decided_by_cost, deletion_order, pods_on_nodes
from plimsoll.controllers.deletion_cost.spec import DEFAULT_SPREAD_BY, ENABLED
from plimsoll.controllers.deletion_cost.values import COST, parse_cost
from plimsoll.kube.types import apps, core, meta

MOMENT = timedelta(seconds=1)
WHILE = timedelta(minutes=10)  # between two things that happen
SPREADS_WELL = 0.8  # how often the scheduler takes the emptiest zone


class Writer(Protocol):
    """Whoever writes deletion costs."""

    name: str
    writes: int

    def look(self, world: World) -> timedelta | None:
        """Write what there is to write; when to be called again at the latest."""
        ...


class World:
    def __init__(self, zones: Mapping[str, int], rng: Random, writer: Writer) -> None:
        """`zones`: how many nodes each zone has."""
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.writer = writer
        self._rng = rng
        self._numbers = iter(range(1, 1_000_000))
        self.nodes = {f"{zone}-{i}": _node(f"{zone}-{i}", zone) for zone, count in zones.items() for i in range(count)}
        self.cordoned: set[str] = set()
        annotations = {ENABLED: "true"}
        self.deployment = apps.Deployment(
            meta.Metadata(name="web", namespace="default", uid="deployment", annotations=annotations)
        )
        self.pods: dict[str, core.Pod] = {}
        self.made = 0  # pods that ever were
        self.replica_sets: dict[str, apps.ReplicaSet] = {}
        self.current = self._new_replica_set(0)

    # ── what can happen ──────────────────────────────────────────────────────────────────────────────────────────────

    def scale(self, replicas: int) -> None:
        self._want(self.current, replicas)
        self._replace_what_is_missing(self.current)
        for uid in self.order()[: max(0, len(self.pods_of(self.current)) - replicas)]:
            del self.pods[uid]
        self._seen()
        self._pass(WHILE)

    def lose(self, which: int) -> None:
        """A pod dies; its replacement runs wherever the scheduler likes."""
        pods = self.pods_of(self.current)
        if pods:
            del self.pods[pods[which % len(pods)].uid]
            self._seen()
            self._replace_what_is_missing(self.current)
            self._pass(WHILE)

    def drain(self, which: int) -> None:
        """A node is cordoned and emptied; later it is back."""
        node = sorted(self.nodes)[which % len(self.nodes)]
        self._empty({node})

    def outage(self, which: int) -> None:
        """A whole zone is away for a while."""
        zones = sorted({zone_of(node) for node in self.nodes.values()})
        if len(zones) > 1:
            gone = zones[which % len(zones)]
            self._empty({name for name, node in self.nodes.items() if zone_of(node) == gone})

    def stumble(self, which: int) -> None:
        """A pod is not ready for a while, longer than anyone waits for it, and recovers."""
        pods = self.pods_of(self.current)
        if pods:
            uid = pods[which % len(pods)].uid
            self._set_ready(uid, ready=False)
            self._pass(WHILE)
            self._set_ready(uid, ready=True)
            self._pass(WHILE)

    def roll_out(self) -> None:
        """A new ReplicaSet takes over, one pod at a time."""
        old, replicas = self.current, self.current.spec.replicas
        self.current = self._new_replica_set(0)
        for new in range(1, replicas + 1):
            self._want(self.current, new)
            self._replace_what_is_missing(self.current)
            self._want(old, replicas - new)
            del self.pods[self.order(old)[0]]
            self._seen()
        del self.replica_sets[old.uid]
        self._pass(WHILE)

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────

    def pods_of(self, replica_set: apps.ReplicaSet) -> list[core.Pod]:
        return [pod for pod in self.pods.values() if pod.metadata.owner_references[0].uid == replica_set.uid]

    def order(self, replica_set: apps.ReplicaSet | None = None) -> list[str]:
        """UIDs, the first to be deleted first."""
        pods = self.pods_of(replica_set or self.current)
        return [pod.uid for pod in deletion_order(pods, cost_of, pods_on_nodes(self.pods.values()), self.now)]

    def zones_in_order(self) -> list[str]:
        """The zones of the ready pods in the order in which a scale-down would take them."""
        pods = [self.pods[uid] for uid in self.order()]
        return [zone_of(self.nodes[pod.spec.node_name]) for pod in pods if decided_by_cost(pod)]

    def annotate(self, uid: str, annotations: Mapping[str, str | None]) -> None:
        pod = self.pods[uid]
        merged = {**pod.annotations, **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.pods[uid] = replace(pod, metadata=replace(pod.metadata, annotations=kept))

    # ── how it happens ───────────────────────────────────────────────────────────────────────────────────────────────

    def _empty(self, nodes: set[str]) -> None:
        self.cordoned |= nodes
        for pod in list(self.pods.values()):
            if pod.spec.node_name in nodes:
                del self.pods[pod.uid]
                self._replace_what_is_missing(self.current)
        self._pass(WHILE)
        self.cordoned -= nodes

    def _replace_what_is_missing(self, replica_set: apps.ReplicaSet) -> None:
        replica_set = self.replica_sets[replica_set.uid]
        while len(self.pods_of(replica_set)) < replica_set.spec.replicas:
            uid = self._create(replica_set)
            if uid is None:
                return
            self._seen()
            self._set_ready(uid, ready=True)

    def _create(self, replica_set: apps.ReplicaSet) -> str | None:
        usable = [name for name in self.nodes if name not in self.cordoned]
        if not usable:
            return None
        taken = Counter(zone_of(self.nodes[pod.spec.node_name]) for pod in self.pods_of(replica_set))
        least = min(taken[zone_of(self.nodes[name])] for name in usable)
        if self._rng.random() < SPREADS_WELL:
            usable = [name for name in usable if taken[zone_of(self.nodes[name])] == least]
        uid = f"{self._rng.getrandbits(64):016x}"
        owner = meta.OwnerReference("ReplicaSet", replica_set.name, replica_set.uid, "apps/v1", controller=True)
        metadata = meta.Metadata(
            name=f"web-{next(self._numbers)}", namespace="default", uid=uid, creation_timestamp=self.now,
            resource_version="1", owner_references=(owner,),
        )  # fmt: skip
        spec = core.PodSpec(node_name=self._rng.choice(usable))
        self.pods[uid] = core.Pod(metadata, spec, core.PodStatus(phase="Pending"))
        self.made += 1
        return uid

    def _set_ready(self, uid: str, *, ready: bool) -> None:
        condition = meta.Condition("Ready", str(ready), last_transition_time=self.now)
        self.pods[uid] = replace(self.pods[uid], status=core.PodStatus(phase="Running", conditions=(condition,)))
        self._seen()

    def _new_replica_set(self, replicas: int) -> apps.ReplicaSet:
        number = next(self._numbers)
        owner = meta.OwnerReference("Deployment", "web", "deployment", "apps/v1", controller=True)
        metadata = meta.Metadata(
            name=f"web-rs{number}", namespace="default", uid=f"rs{number}", owner_references=(owner,)
        )
        made = apps.ReplicaSet(metadata, apps.WorkloadSpec(replicas=replicas))
        self.replica_sets[made.uid] = made
        return made

    def _want(self, replica_set: apps.ReplicaSet, replicas: int) -> None:
        changed = replace(replica_set, spec=apps.WorkloadSpec(replicas=replicas))
        self.replica_sets[replica_set.uid] = changed
        if self.current.uid == changed.uid:
            self.current = changed

    def _seen(self) -> None:
        self.now += MOMENT
        self.writer.look(self)

    def _pass(self, time: timedelta) -> None:
        """Let time go by; whoever asked to be called in it is called."""
        end = self.now + time
        while (again := self.writer.look(self)) is not None and self.now + again < end:
            self.now += max(again, MOMENT)
        self.now = end


NewEvent = Callable[[World], None]


def cost_of(pod: core.Pod) -> int:
    text = pod.annotations.get(COST)
    return parse_cost(text) or 0 if text is not None else 0


def zone_of(node: core.Node) -> str:
    return node.labels[DEFAULT_SPREAD_BY]


def _node(name: str, zone: str) -> core.Node:
    return core.Node(meta.Metadata(name=name, uid=f"node-{name}", labels={DEFAULT_SPREAD_BY: zone}))
