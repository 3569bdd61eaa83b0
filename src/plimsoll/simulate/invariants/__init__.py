"""The invariant checker: it observes every request, object change and machine order of a simulated cluster and records violations.

`World` builds the checker and registers it with the API server, the storage, the fault transports and the simulated cloud. The
checker reads cluster objects and requests only. It imports no rule of the operator, not even selector matching, so that a wrong
rule cannot hide its own violations (`tests/simulate/test_invariant_independence.py`). Each invariant or small family has its own file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from plimsoll.config import Config
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, namespace_of, uid_of
from plimsoll.embedded_cluster.api.server import ApiRequest, ApiResponse
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.kube.types.resources import Key
from plimsoll.providers.protocol import MachineRequest
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Decision
from plimsoll.simulate.invariants.allocations import AllocationInvariants
from plimsoll.simulate.invariants.evictions import EvictionInvariants
from plimsoll.simulate.invariants.leaders import LeadershipInvariant, UidPreconditionInvariant
from plimsoll.simulate.invariants.limits import DisruptionLimitInvariant
from plimsoll.simulate.invariants.liveness import LivenessInvariants
from plimsoll.simulate.invariants.observed import ObservedState
from plimsoll.simulate.invariants.removals import NodeRemovalInvariant
from plimsoll.simulate.invariants.request import OPERATOR_USER_AGENT, OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant, Violation
from plimsoll.simulate.invariants.sizes import GroupSizeInvariants
from plimsoll.simulate.invariants.views import FreshnessInvariants

INVARIANTS: tuple[type[Invariant], ...] = (
    AllocationInvariants,
    EvictionInvariants,
    DisruptionLimitInvariant,
    NodeRemovalInvariant,
    GroupSizeInvariants,
    UidPreconditionInvariant,
    LeadershipInvariant,
    FreshnessInvariants,
)


class TimelineEntry(Struct, frozen=True, rename="camel"):
    """One line of the simulation's timeline, as `simulate --story` and the demo print it."""

    at: datetime
    what: str
    why: str = ""


class InvariantChecker:
    """Dispatches observations to the invariants and counts evictions, writes and machines for the report."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock, config: Config) -> None:
        self.observed = ObservedState(cluster, clock, config)
        self._clock = clock
        self._home = config.operator.namespace
        self.violations: list[Violation] = []
        self.timeline: list[TimelineEntry] = []
        self.evictions = 0
        self.evicted_at: list[datetime] = []
        self.refused_evictions = 0
        self.writes: Counter[str] = Counter()  # by resource; without objects in the operator's own namespace
        self.machines_bought = self.machines_given_back = 0
        self.last_decision: dict[tuple[str, Key], Decision] = {}
        self._evicted_pods: Counter[str] = Counter()
        self._call: OperatorRequest | None = None  # in progress: object changes seen now are its effect
        self._evicted_pod: Json | None = None  # the pod that the request in progress evicts
        self.liveness = LivenessInvariants(self.observed, self._violated)
        self.rules = (*(rule(self.observed, self._violated) for rule in INVARIANTS), self.liveness)
        self._on_request = self._overriding("request_received")
        self._on_response = self._overriding("response_sent")
        self._on_eviction = self._overriding("evicted")
        self._on_machine_ordered = self._overriding("machine_ordered")
        self._on_machine_deleted = self._overriding("machine_deleted")
        self._on_reply = self._overriding("reply_received")
        self._on_change: dict[tuple[str, str], list[Invariant]] = {}
        for rule in self.rules:
            for collection in rule.watched_kinds:
                self._on_change.setdefault(collection, []).append(rule)
        cluster.api.storage.listeners.append(self._object_changed)
        cluster.api.observers.append(self)

    def _overriding(self, method: str) -> list[Invariant]:
        """Invariants that override a method; the others need not be called."""
        return [rule for rule in self.rules if getattr(type(rule), method) is not getattr(Invariant, method)]

    # ── the operator's decisions and requests ────────────────────────────────────────────────────────────────────────

    def decided(self, controller: str, key: Key, decision: Decision) -> None:
        before = self.last_decision.get((controller, key))
        self.last_decision[controller, key] = decision
        if before is None or before.reason.code != decision.reason.code:
            self._record(f"{controller} {key}: {decision.reason.code}", decision.reason.message)

    def request_received(self, request: ApiRequest) -> None:
        """The API server calls this before it handles a request."""
        if not request.user_agent.startswith(OPERATOR_USER_AGENT):
            return
        call = OperatorRequest(request)
        for rule in self._on_request:
            rule.request_received(call)
        if call.writes:
            self._call = call
            self._evicted_pod = (
                self.observed.storage.get(kinds.PODS, call.namespace, call.name) if call.evicts else None
            )

    def response_sent(self, request: ApiRequest, answer: ApiResponse) -> None:
        if not request.user_agent.startswith(OPERATOR_USER_AGENT):
            return
        call = self._call if self._call is not None and self._call.path == request.path else OperatorRequest(request)
        if call.writes:
            evicted, self._evicted_pod, self._call = self._evicted_pod, None, None
            if call.evicts:
                self._eviction_answered(call, evicted, answer.status)
            elif answer.status < 300 and call.namespace != self._home and call.plural != "events":
                self.writes[call.plural] += 1
        for rule in self._on_response:
            rule.response_sent(call, answer.status)

    def _eviction_answered(self, call: OperatorRequest, pod: Json | None, status: int) -> None:
        if status >= 300:
            self.refused_evictions += 1
        elif pod is not None:
            self.evictions += 1
            self.evicted_at.append(self._clock.now())
            self._evicted_pods[uid_of(pod)] += 1
            self._record(f"evicted {namespace_of(pod)}/{name_of(pod)} from {at(pod, 'spec', 'nodeName', default='?')}")
            for rule in self._on_eviction:
                rule.evicted(pod, call)

    def reply_received(self, who: str, method: str, path: str, params: Mapping[str, str], status: int) -> None:
        for rule in self._on_reply:
            rule.reply_received(who, method, path, params, status)

    def machine_ordered(self, who: str, request: MachineRequest) -> None:
        self.machines_bought += 1
        self._record(f"ordered machine {request.name} ({request.offering})")
        for rule in self._on_machine_ordered:
            rule.machine_ordered(who, request)

    def machine_deleted(self, who: str, machine_id: str) -> None:
        self.machines_given_back += 1
        self._record(f"deleted machine {machine_id}")
        for rule in self._on_machine_deleted:
            rule.machine_deleted(who, machine_id)

    # ── object changes ───────────────────────────────────────────────────────────────────────────────────────────────

    def _object_changed(self, change: ObjectChange) -> None:
        if change.collection == kinds.NODES.storage_key and change.type != "MODIFIED":
            self._record(f"node {name_of(change.object)} {'joined' if change.type == 'ADDED' else 'was removed'}")
        for rule in self._on_change.get(change.collection, ()):
            rule.changed(change, self._call)

    def workloads(self) -> Iterator[Json]:
        return self.observed.workloads()

    def pods_of(self, workload: Json) -> list[Json]:
        return self.observed.pods_of(workload)

    def missing(self, workload: Json) -> int:
        return self.observed.missing(workload)

    def split(self, workload: Json) -> tuple[int, int]:
        return self.observed.split(workload)

    # ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def last_write(self) -> datetime | None:
        return self.liveness.last_write

    def most_evictions_of_one_pod(self) -> int:
        return max(self._evicted_pods.values(), default=0)

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, self._clock.now(), what))

    def scenario_changed(self, text: str) -> None:
        """Record a change that the scenario makes."""
        self._record(f"scenario: {text}")

    def _record(self, what: str, why: str = "") -> None:
        self.timeline.append(TimelineEntry(self._clock.now(), what, why))
