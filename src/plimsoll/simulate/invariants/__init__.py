"""Watches every step of a simulated cluster: what the operator did, what it cost, and whether anything was done that must not be.

The witness looks at the cluster's own objects, at the calls that the operator makes, and at what it orders at the cloud. It asks
none of the controllers: who judges must not share their ideas. Each rule, or small family of rules, has a file of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.config import Config
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, namespace_of, uid_of
from plimsoll.embedded_cluster.api.server import Answer, Request
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.embedded_cluster.cluster import Cluster
from plimsoll.kube.types.resources import Key
from plimsoll.providers.protocol import MachineRequest
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Decision
from plimsoll.simulate.invariants.allocations import Allocations
from plimsoll.simulate.invariants.evictions import Evictions
from plimsoll.simulate.invariants.leaders import Leaders, Naming
from plimsoll.simulate.invariants.limits import Limits
from plimsoll.simulate.invariants.liveness import Liveness
from plimsoll.simulate.invariants.observed import Sight
from plimsoll.simulate.invariants.removals import Removals
from plimsoll.simulate.invariants.request import OPERATOR, Call
from plimsoll.simulate.invariants.rule import Rule, Violation
from plimsoll.simulate.invariants.sizes import Sizes
from plimsoll.simulate.invariants.views import Views

RULES: tuple[type[Rule], ...] = (Allocations, Evictions, Limits, Removals, Sizes, Naming, Leaders, Views)


class NewEvent(Struct, frozen=True, rename="camel"):
    """One thing worth telling."""

    at: datetime
    what: str
    why: str = ""


class Witness:
    def __init__(self, cluster: Cluster, clock: Clock, config: Config) -> None:
        self.sight = Sight(cluster, clock, config)
        self._clock = clock
        self._home = config.operator.namespace
        self.violations: list[Violation] = []
        self.happenings: list[NewEvent] = []
        self.evictions = 0
        self.refused_evictions = 0
        self.writes: Counter[str] = Counter()  # by kind of object; without what the operator keeps at home
        self.machines_bought = self.machines_given_back = 0
        self.last_decision: dict[tuple[str, Key], Decision] = {}
        self._evicted_pods: Counter[str] = Counter()
        self._call: Call | None = None  # under way: what changes now is its doing
        self._leaving: Json | None = None  # the pod that it wants to go
        self.liveness = Liveness(self.sight, self._violated)
        self.rules = (*(rule(self.sight, self._violated) for rule in RULES), self.liveness)
        self._asked = self._listening("asked")
        self._answered = self._listening("answered")
        self._evicted = self._listening("evicted")
        self._bought = self._listening("bought")
        self._given_back = self._listening("given_back")
        self._heard = self._listening("heard")
        self._changed: dict[tuple[str, str], list[Rule]] = {}
        for rule in self.rules:
            for collection in rule.sees:
                self._changed.setdefault(collection, []).append(rule)
        cluster.api.storage.listeners.append(self._object_changed)
        cluster.api.observers.append(self)

    def _listening(self, what: str) -> list[Rule]:
        return [rule for rule in self.rules if getattr(type(rule), what) is not getattr(Rule, what)]

    # ── what the operator says and asks ──────────────────────────────────────────────────────────────────────────────

    def decided(self, controller: str, key: Key, decision: Decision) -> None:
        before = self.last_decision.get((controller, key))
        self.last_decision[controller, key] = decision
        if before is None or before.reason.code != decision.reason.code:
            self._tell(f"{controller} {key}: {decision.reason.code}", decision.reason.message)

    def asked(self, request: Request) -> None:
        """Before the server does anything."""
        if not request.user_agent.startswith(OPERATOR):
            return
        call = Call(request)
        for rule in self._asked:
            rule.asked(call)
        if call.writes:
            self._call = call
            self._leaving = self.sight.storage.get(kinds.PODS, call.namespace, call.name) if call.evicts else None

    def answered(self, request: Request, answer: Answer) -> None:
        if not request.user_agent.startswith(OPERATOR):
            return
        call = self._call if self._call is not None and self._call.path == request.path else Call(request)
        if call.writes:
            leaving, self._leaving, self._call = self._leaving, None, None
            if call.evicts:
                self._eviction_answered(call, leaving, answer.status)
            elif answer.status < 300 and call.namespace != self._home and call.plural != "events":
                self.writes[call.plural] += 1
        for rule in self._answered:
            rule.answered(call, answer.status)

    def _eviction_answered(self, call: Call, pod: Json | None, status: int) -> None:
        if status >= 300:
            self.refused_evictions += 1
        elif pod is not None:
            self.evictions += 1
            self._evicted_pods[uid_of(pod)] += 1
            self._tell(f"evicted {namespace_of(pod)}/{name_of(pod)} from {at(pod, 'spec', 'nodeName', default='?')}")
            for rule in self._evicted:
                rule.evicted(pod, call)

    def heard(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None:
        for rule in self._heard:
            rule.heard(who, method, path, params, status)

    def bought(self, who: str, request: MachineRequest) -> None:
        self.machines_bought += 1
        self._tell(f"ordered {request.name}, a {request.offering}")
        for rule in self._bought:
            rule.bought(who, request)

    def given_back(self, who: str, machine_id: str) -> None:
        self.machines_given_back += 1
        self._tell(f"gave back machine {machine_id}")
        for rule in self._given_back:
            rule.given_back(who, machine_id)

    # ── what the cluster says ────────────────────────────────────────────────────────────────────────────────────────

    def _object_changed(self, change: Change) -> None:
        if change.collection == kinds.NODES.storage_key and change.type != "MODIFIED":
            self._tell(f"node {name_of(change.object)} {'came' if change.type == 'ADDED' else 'went'}")
        for rule in self._changed.get(change.collection, ()):
            rule.changed(change, self._call)

    def workloads(self) -> Iterator[Json]:
        return self.sight.workloads()

    def pods_of(self, workload: Json) -> list[Json]:
        return self.sight.pods_of(workload)

    def missing(self, workload: Json) -> int:
        return self.sight.missing(workload)

    def split(self, workload: Json) -> tuple[int, int]:
        return self.sight.split(workload)

    # ── what comes of it ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def last_write(self) -> datetime | None:
        return self.liveness.last_write

    def often_evicted(self) -> int:
        return max(self._evicted_pods.values(), default=0)

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, self._clock.now(), what))

    def _tell(self, what: str, why: str = "") -> None:
        self.happenings.append(NewEvent(self._clock.now(), what, why))
