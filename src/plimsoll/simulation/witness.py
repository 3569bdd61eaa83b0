"""Watches every step of a simulated cluster: what the operator did, what it cost, and whether anything was done that must not be.

The witness looks at the cluster's own objects and at the calls that the operator makes. It asks none of the controllers: who
judges must not share their ideas.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from plimsoll.clock import Clock
from plimsoll.config import Config
from plimsoll.decision import Decision
from plimsoll.kube.resources import Key
from plimsoll.kube.selectors import selects
from plimsoll.sim.api import kinds
from plimsoll.sim.api.documents import (
    Json,
    at,
    controller_of,
    holds,
    labels_of,
    name_of,
    namespace_of,
    terminating,
    uid_of,
)
from plimsoll.sim.api.kinds import Kind
from plimsoll.sim.api.selecting import selector_of
from plimsoll.sim.api.storage import Change
from plimsoll.sim.cluster import Cluster

_CLASS = "karpenter.sh/capacity-type"
_MINIMUM = "spotalis.io/min-on-demand"
_ENABLED = "spotalis.io/enabled"
_WORKLOADS: Mapping[str, Kind] = {"Deployment": kinds.DEPLOYMENTS, "StatefulSet": kinds.STATEFULSETS}


class Violation(Struct, frozen=True, rename="camel"):
    """Something that must never happen, and did."""

    rule: str  # S4, S5, …
    at: datetime
    what: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.rule}: {self.what}"


class Happening(Struct, frozen=True, rename="camel"):
    """One thing worth telling."""

    at: datetime
    what: str
    why: str = ""


class Witness:
    def __init__(self, cluster: Cluster, clock: Clock, config: Config) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limits = config.operator.disruption_limits
        self._home = config.operator.namespace
        self.violations: list[Violation] = []
        self.happenings: list[Happening] = []
        self.evictions = 0
        self.refused_evictions = 0
        self.writes: Counter[str] = Counter()  # by kind of object; without what the operator keeps at home
        self.last_write: datetime | None = None
        self.last_decision: dict[tuple[str, Key], Decision] = {}
        self._evicted: deque[tuple[datetime, str]] = deque()  # when, and the UID of whose pod
        self._evicted_pods: Counter[str] = Counter()
        cluster.api.storage.listeners.append(self._changed)

    # ── what the operator says and asks ──────────────────────────────────────────────────────────────────────────────

    def decided(self, controller: str, key: Key, decision: Decision) -> None:
        before = self.last_decision.get((controller, key))
        self.last_decision[controller, key] = decision
        if before is None or before.reason.code != decision.reason.code:
            self._tell(f"{controller} {key}: {decision.reason.code}", decision.reason.message)

    def asked(self, method: str, path: str, body: bytes) -> Json | None:
        """Before a call reaches the server: the pod that is to leave, if it is that."""
        if method == "DELETE" and "/pods/" in path:
            self._violated("S4", f"the operator deletes a pod: {path}")
        if not path.endswith("/eviction"):
            return None
        *_, namespace, _, name, _ = path.split("/")
        pod = self._cluster.api.storage.get(kinds.PODS, namespace, name)
        named = at(msgspec.json.decode(body), "deleteOptions", "preconditions", "uid", default="")
        if not named:
            self._violated("S8", f"an eviction of {namespace}/{name} names no UID")
        return pod

    def answered(self, method: str, path: str, leaving: Json | None, status: int) -> None:
        if path.endswith("/eviction"):
            if status >= 300:
                self.refused_evictions += 1
            elif leaving is not None:
                self._evict(leaving)
        elif method not in ("GET", "HEAD") and status < 300 and f"/namespaces/{self._home}/" not in path:
            if "/events" in path:
                return
            self.writes[path.split("/")[-2] if method != "POST" else path.rsplit("/", maxsplit=1)[-1]] += 1
            self.last_write = self._clock.now()

    # ── what must always hold ────────────────────────────────────────────────────────────────────────────────────────

    def _evict(self, pod: Json) -> None:
        now = self._clock.now()
        self.evictions += 1
        self.last_write = now
        self._tell(f"evicted {namespace_of(pod)}/{name_of(pod)} from {at(pod, 'spec', 'nodeName', default='?')}")
        self._evicted_pods[uid_of(pod)] += 1
        workload = self._workload_of(pod)
        owner = uid_of(workload) if workload is not None else uid_of(pod)
        since = now - self._limits.period
        self._evicted.append((now, owner))
        while self._evicted and self._evicted[0][0] <= since:
            self._evicted.popleft()
        if len(self._evicted) > self._limits.per_cluster:
            self._violated("S5", f"{len(self._evicted)} evictions within {self._limits.period}")
        of_owner = sum(who == owner for _, who in self._evicted)
        if of_owner > self._limits.per_workload:
            self._violated("S5", f"{of_owner} evictions of one workload within {self._limits.period}")
        if workload is None or not holds(pod, "Ready"):
            return
        others = [one for one in self.pods_of(workload) if holds(one, "Ready") and uid_of(one) != uid_of(pod)]
        self._within_limits(pod, workload, others)

    def _within_limits(self, pod: Json, workload: Json, others: list[Json]) -> None:
        where = f"{namespace_of(workload)}/{name_of(workload)}"
        wanted = at(workload, "spec", "replicas", default=1)
        if not others and wanted > 1:
            self._violated("S4", f"the last ready pod of {where} was evicted")
        if not self._has_budget(pod) and len(others) < wanted - 1 and not self._leaving(pod):
            self._violated("S4", f"{where} has no budget, and {wanted - len(others)} of its {wanted} pods are missing")
        notes = at(workload, "metadata", "annotations", default={})
        if notes.get(_ENABLED) == "true" and notes.get(_MINIMUM, "").isdecimal() and not self._is_spot(pod):
            ready = sum(not self._is_spot(one) for one in others)
            if ready < int(notes[_MINIMUM]) and not self._leaving(pod):
                self._violated("S13", f"{where} has {ready} ready on-demand pods, and {notes[_MINIMUM]} must stay")

    def _changed(self, change: Change) -> None:
        if change.collection == kinds.NODES.storage_key and change.type != "MODIFIED":
            self._tell(f"node {name_of(change.object)} {'came' if change.type == 'ADDED' else 'went'}")

    # ── what the cluster says ────────────────────────────────────────────────────────────────────────────────────────

    def workloads(self) -> Iterator[Json]:
        for kind in _WORKLOADS.values():
            yield from self._cluster.all(kind)

    def pods_of(self, workload: Json) -> list[Json]:
        """Neither terminating nor finished."""
        storage = self._cluster.api.storage
        owners = [uid_of(workload), *(uid_of(one) for one in storage.owned_by(kinds.REPLICASETS, uid_of(workload)))]
        found = [pod for owner in owners for pod in storage.owned_by(kinds.PODS, owner)]
        return [
            pod
            for pod in found
            if not terminating(pod) and at(pod, "status", "phase", default="") not in ("Succeeded", "Failed")
        ]

    def missing(self, workload: Json) -> int:
        ready = sum(holds(pod, "Ready") for pod in self.pods_of(workload))
        return max(0, int(at(workload, "spec", "replicas", default=1)) - ready)

    def split(self, workload: Json) -> tuple[int, int]:
        """Pods on spot nodes and on others."""
        on_nodes = [pod for pod in self.pods_of(workload) if at(pod, "spec", "nodeName", default="")]
        spot = sum(self._is_spot(pod) for pod in on_nodes)
        return spot, len(on_nodes) - spot

    def often_evicted(self) -> int:
        return max(self._evicted_pods.values(), default=0)

    def _workload_of(self, pod: Json) -> Json | None:
        storage = self._cluster.api.storage
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            found = storage.get(kinds.REPLICASETS, namespace_of(pod), owner["name"])
            owner = controller_of(found) if found is not None else None
        kind = _WORKLOADS.get(owner["kind"]) if owner is not None else None
        return storage.get(kind, namespace_of(pod), owner["name"]) if kind is not None and owner is not None else None

    def _has_budget(self, pod: Json) -> bool:
        for budget in self._cluster.all(kinds.BUDGETS, namespace_of(pod)):
            if selects(selector_of(at(budget, "spec", "selector", default={})), labels_of(pod)):
                return True
        return False

    def _node_of(self, pod: Json) -> Json | None:
        return self._cluster.api.storage.node(at(pod, "spec", "nodeName", default=""))

    def _is_spot(self, pod: Json) -> bool:
        node = self._node_of(pod)
        return node is not None and is_spot(node)

    def _leaving(self, pod: Json) -> bool:
        """Whether its node is about to go: then it is rescued, whatever else is missing."""
        node = self._node_of(pod)
        return node is not None and bool(at(node, "spec", "taints", default=[]))

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, self._clock.now(), what))

    def _tell(self, what: str, why: str = "") -> None:
        self.happenings.append(Happening(self._clock.now(), what, why))


def is_spot(node: Json) -> bool:
    return labels_of(node).get(_CLASS) == "spot"
