"""The dashboard snapshot: everything the page shows, updated incrementally.

Stores, reconcilers and the actuator report changes, which only mark records as stale. `broadcaster` calls `renew`, which rebuilds and
encodes the stale records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from plimsoll import __version__
from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS, nodes_of
from plimsoll.controllers.allocation.overview import overview
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision, NodeGroupController
from plimsoll.controllers.nodegroups.scale_up.expected_node import expected_node
from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpPlan
from plimsoll.controllers.nodegroups.types import BY_NODE_NAME, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.dashboard.history import SECONDS_KEPT, Histories
from plimsoll.dashboard.nodegroups import NodeCounts, group_record, managed_groups
from plimsoll.dashboard.nodes import OwnerCache, labelled_group, node_record
from plimsoll.dashboard.records import (
    AllocationRecord,
    DriveRecord,
    GroupRecord,
    GroupRefusal,
    NodeRecord,
    OperatorRecord,
    PendingRecord,
    PortsRecord,
    SizePoint,
    SnapshotRecord,
    WorkloadRecord,
)
from plimsoll.dashboard.timeline import Timeline
from plimsoll.dashboard.workloads import DecidedKey, is_deleted, workload_record
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import NODES, PODS, Key, Resource
from plimsoll.kube.workloads import pods_owned_by
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Decision
from plimsoll.runtime.outcome import Outcome
from plimsoll.scheduling.nomination import preemption_under_way

log = structlog.get_logger()

_encode = msgspec.json.Encoder().encode


class RecordSection:
    def __init__(self, record: Callable[[str], Struct | None]) -> None:
        self._record = record
        self._stale: set[str] = set()
        self.encoded: dict[str, Raw] = {}

    def touch(self, *names: str) -> None:
        self._stale.update(names)

    def touch_all(self, names: Iterable[str] = ()) -> None:
        """Mark every record and these names as stale."""
        self._stale.update(self.encoded, names)

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    def take_stale(self) -> set[str]:
        taken, self._stale = self._stale, set()
        return taken

    def renew(self, name: str) -> bool:
        """Rebuild one record; returns whether it changed. A record that cannot be built stays as it was."""
        try:
            record: Any = self._record(name)
        except Exception:
            log.exception("cannot build dashboard record", name=name)
            return False
        before = self.encoded.get(name)
        if record is None:
            return self.encoded.pop(name, None) is not None
        after = _encode(record)
        if before is not None and bytes(before) == after:
            return False
        self.encoded[name] = Raw(after)
        return True


# Renewal yields the event loop after this time: the operator has a lease to renew and reviews to answer.
SLICE_SECONDS = 0.008


class OperatorInfo(Struct, frozen=True):
    """The operator process that the snapshot belongs to."""

    cluster: str
    identity: str
    read_only: bool
    controllers: tuple[str, ...]
    leading: Callable[[], bool]


class DashboardSnapshot:
    """Receives object changes (`changed`), decisions with their outcomes (`acted`) and audit records (`recorded`)."""

    def __init__(
        self, view: View, rules: ClassRules, clock: Clock, shown: OperatorInfo, *, ports_per_container: int = 100
    ) -> None:
        self.version = 0
        self._view = view
        self._rules = rules
        self._clock = clock
        self._info = shown
        self._ports_per_container = ports_per_container
        self._owners = OwnerCache(view)
        self._node_counts = NodeCounts(rules)
        self._timeline = Timeline()
        self._histories = Histories()
        self._groups: dict[str, GroupRecord] = {}
        self._new_points: dict[str, SizePoint] = {}
        self._decided: dict[tuple[str, Key], DecidedKey] = {}
        self._keys: dict[str, Key] = {}
        self._counted_on: dict[str, list[str]] = {}  # by planned node: the pending pods planned for it
        self._operator = self._who()
        self.nodes = RecordSection(self._node)
        self.workloads = RecordSection(self._workload)
        self.groups = RecordSection(self._group)
        self.pending = RecordSection(self._pending)
        self.allocations = RecordSection(self._allocation)
        self._everything()
        for store in view.stores():
            store.listen(self.changed)

    # ── input ───────────────────────────────────────────────────────────────────────────────────────────

    def changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        """An object was added, changed or deleted: mark the records that show it."""
        for state in (before, after):
            match state:
                case Pod():
                    if state.spec.node_name:
                        self.nodes.touch(state.spec.node_name)
                    else:
                        self.pending.touch(f"{state.namespace}/{state.name}")
                case Node():
                    self.nodes.touch(state.name)
                    self.groups.touch(labelled_group(state.labels))
                    if WEKA_CONTAINERS in self._view:
                        self.allocations.touch(state.name)
                    self._groups_of(state.name)
                case VPSieNode():
                    self.nodes.touch(state.node_name)
                    self.groups.touch(state.group)
                    self.pending.touch(*self._counted_on.get(state.node_name, ()))
                case NodeGroup():
                    self.groups.touch(f"{state.namespace}/{state.name}", state.name)
                case WekaContainer():
                    self.allocations.touch(*nodes_of(state))
                case ReplicaSet():
                    if before is None or after is None:  # its pods may have arrived first
                        self.nodes.touch(
                            *(pod.spec.node_name for pod in pods_owned_by(state.namespace, state.uid, self._view))
                        )
        if resource == NODES:
            self._node_counts.changed(before, after)

    def acted(self, controller: str, key: Key, decision: Decision, outcome: Outcome) -> None:
        """A key was decided, and the actuator has carried out what it could."""
        if is_deleted(decision):
            self._decided.pop((controller, key), None)
        else:
            self._decided[controller, key] = DecidedKey(decision, outcome)
        self._timeline.decided(controller, key, decision, self._clock.now())
        if controller in (PlacementController.name, DeletionCostController.name):
            self._keys[str(key)] = key
            self.workloads.touch(str(key))
        elif key == CLUSTER:
            self.groups.touch_all()
            self.pending.touch_all()
            self._count_on(decision)

    def recorded(self, record: AuditRecord) -> None:
        self._timeline.recorded(record)

    # ── output ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def stale(self) -> bool:
        return (
            any(section.stale for _, section in self._sections())
            or self._timeline.has_news
            or bool(self._new_points)
            or self._who() != self._operator
        )

    @property
    def now(self) -> datetime:
        return self._clock.now()

    async def renew(self) -> bytes | None:
        """Rebuild the stale records in slices; returns the change as JSON, or None if nothing changed.

        It must not be cancelled: records rebuilt by then would never be sent.
        """
        self._owners = OwnerCache(self._view)
        changed: dict[str, dict[str, Raw | None]] = {}
        began = time.perf_counter()
        for title, section in self._sections():
            changed[title] = {}
            for name in section.take_stale():
                if section.renew(name):
                    changed[title][name] = section.encoded.get(name)
                if time.perf_counter() - began > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = time.perf_counter()
        self._add_points(changed["groups"])
        who, news = self._who(), self._timeline.take_news()
        if not any(changed.values()) and not news and who == self._operator:
            return None
        self._operator = who
        self.version += 1
        at = self._clock.now()
        return _encode(SnapshotRecord(self.version, at, whole=False, operator=who, decisions=news, **changed))

    def whole(self) -> bytes:
        """The full snapshot as of the last `renew`."""
        sections: dict[str, Any] = {title: section.encoded for title, section in self._sections()}
        sections["groups"] = {
            name: Raw(_encode(replace(one, history=self._histories.of(name)))) for name, one in self._groups.items()
        }
        at, decisions = self._clock.now(), self._timeline.kept
        return _encode(
            SnapshotRecord(self.version, at, whole=True, operator=self._operator, decisions=decisions, **sections)
        )

    def sample(self) -> None:
        """Record the sizes of the groups; called once per minute, with or without clients."""
        now = int(self._clock.now().timestamp())
        for name in (*managed_groups(self._view), *self._node_counts.names()):
            record = self._group(name)
            if record is not None:
                self._remember(name, record, now)
        self._histories.forget_before(now - SECONDS_KEPT)

    # ── records ───────────────────────────────────────────────────────────────────────────────────────────────

    def _sections(self) -> tuple[tuple[str, RecordSection], ...]:
        return (
            ("nodes", self.nodes),
            ("workloads", self.workloads),
            ("groups", self.groups),
            ("pending", self.pending),
            ("allocations", self.allocations),
        )

    def _everything(self) -> None:
        view = self._view
        for store in view.stores():
            for obj in store:
                self.changed(store.resource, None, obj)

    def _who(self) -> OperatorRecord:
        shown = self._info
        return OperatorRecord(
            shown.cluster, shown.identity, shown.leading(), shown.read_only, shown.controllers, __version__
        )

    def _node(self, name: str) -> NodeRecord | None:
        return node_record(name, self._view, self._rules, self._owners)

    def _workload(self, name: str) -> WorkloadRecord | None:
        key = self._keys[name]
        record = workload_record(
            self._decided.get((PlacementController.name, key)), self._decided.get((DeletionCostController.name, key))
        )
        if record is None:
            del self._keys[name]
        return record

    def _pending(self, name: str) -> PendingRecord | None:
        namespace, _, pod_name = name.partition("/")
        pod, decision = self._view[PODS].get(namespace, pod_name), self._about_groups
        return (
            pending_record(pod, decision.scale_up if decision is not None else ScaleUpPlan(), self._view)
            if pod is not None and is_pending(pod)
            else None
        )

    def _allocation(self, name: str) -> AllocationRecord | None:
        return allocation_record(name, self._view, self._ports_per_container)

    # ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _about_groups(self) -> GroupsDecision | None:
        decided = self._decided.get((NodeGroupController.name, CLUSTER))
        return decided.decision if decided is not None and isinstance(decided.decision, GroupsDecision) else None

    def _count_on(self, decision: Decision) -> None:
        self._counted_on = {}
        if isinstance(decision, GroupsDecision):
            for pod, node in decision.scale_up.places.items():
                self._counted_on.setdefault(node, []).append(pod)

    def _group(self, name: str) -> GroupRecord | None:
        record = group_record(name, self._view, self._rules, self._node_counts, self._about_groups)
        if record is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = record
        return record

    def _groups_of(self, node: str) -> None:
        if VPSIE_NODES in self._view:
            self.groups.touch(*(one.group for one in self._view[VPSIE_NODES].by(BY_NODE_NAME, node)))

    def _remember(self, name: str, record: GroupRecord, now: int) -> None:
        sizes = (now, record.current, record.ready, record.desired)
        point: SizePoint = sizes if record.price_per_hour is None else (*sizes, record.price_per_hour)
        self._histories.add(name, point)
        self._new_points[name] = point

    def _add_points(self, changed: dict[str, Raw | None]) -> None:
        """Add a history point for every changed group, and send groups that only have a new point."""
        now = int(self._clock.now().timestamp())
        for name in changed:
            if name in self._groups:
                self._remember(name, self._groups[name], now)
        for name, point in self._new_points.items():
            if name in self._groups and name in self.groups.encoded:
                changed[name] = Raw(_encode(replace(self._groups[name], point=point)))
        self._new_points.clear()


def is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished and not pod.terminating


def pending_record(pod: Pod, plan: ScaleUpPlan, view: View) -> PendingRecord:
    scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    name = f"{pod.namespace}/{pod.name}"
    tried = plan.refusals.get(name, {})
    since = scheduled.last_transition_time if scheduled is not None else None
    return PendingRecord(
        since=since or pod.metadata.creation_timestamp,
        why=_why(pod, view, scheduled.message if scheduled is not None and scheduled.status == "False" else ""),
        awaits=expected_node(name, plan, view) if VPSIE_NODES in view else None,
        tried=[GroupRefusal(where, message) for where, message in tried.items()],
    )


def _why(pod: Pod, view: View, scheduler_says: str) -> str:
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"kube-scheduler ignores the pod while it has the scheduling gates {gates}"
    if preemption_under_way(pod, view):
        return f"pods on node {pod.status.nominated_node_name} are being preempted for it"
    return scheduler_says or "kube-scheduler has not tried it yet"


def allocation_record(name: str, view: View, ports_per_container: int) -> AllocationRecord | None:
    """The record of a node; None if it has neither drives nor containers."""
    if WEKA_CONTAINERS not in view:
        return None
    containers = view[WEKA_CONTAINERS].by(BY_AFFINITY, name)
    node = overview(name, view[NODES].get("", name), containers, ports_per_container)
    drives = [
        DriveRecord(serial, one.container, one.state)
        for one in node.holders
        for serial in (*one.drives, *(f"{serial} ({gib} GiB)" for serial, gib in one.shared_gib.items()))
    ]
    drives += [DriveRecord(serial, None, "free") for serial in node.free_drives]
    drives += [DriveRecord(serial, None, "blocked") for serial in node.blocked_drives]
    drives += [DriveRecord(f"{one.serial} ({one.free_gib} GiB)", None, "free") for one in node.shared if one.free_gib]
    ports = [PortsRecord(*_range(text), one.container) for one in node.holders for text in one.ports]
    if not (drives or ports or node.waiting or node.problems):
        return None
    drives.sort(key=lambda one: one.device)
    ports.sort(key=lambda one: one.first)
    return AllocationRecord(drives, ports, list(node.waiting), [*node.conflicts, *node.problems])


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
