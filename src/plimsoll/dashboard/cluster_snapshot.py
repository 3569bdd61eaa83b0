"""A part of the picture: records by name, each made and encoded when something that it shows has changed, and not before."""

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
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS, nodes_of
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision, NodeGroupController
from plimsoll.controllers.nodegroups.scale_up.question import ScaleUp
from plimsoll.controllers.nodegroups.types import BY_NODE_NAME, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.dashboard.allocations import allocation_record
from plimsoll.dashboard.history import SECONDS_KEPT, Histories
from plimsoll.dashboard.nodegroups import Tally, group_record, managed_groups
from plimsoll.dashboard.nodes import Siblings, labelled_group, node_record
from plimsoll.dashboard.pods import is_pending, pending_record
from plimsoll.dashboard.records import (
    AllocationRecord,
    GroupRecord,
    NodeRecord,
    OperatorRecord,
    PendingRecord,
    PictureRecord,
    Point,
    WorkloadRecord,
)
from plimsoll.dashboard.timeline import Timeline
from plimsoll.dashboard.workloads import Decided, is_gone, workload_record
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import KubeObject, Node, Pod, ReplicaSet
from plimsoll.kube.types.resources import BY_OWNER, NODES, PODS, Key, Resource
from plimsoll.runtime.audit import AuditRecord
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Decision
from plimsoll.runtime.outcome import Outcome

log = structlog.get_logger()

_encode = msgspec.json.Encoder().encode


class Section:
    def __init__(self, record: Callable[[str], Struct | None]) -> None:
        self._record = record
        self._stale: set[str] = set()
        self.encoded: dict[str, Raw] = {}

    def touch(self, *names: str) -> None:
        self._stale.update(names)

    def touch_all(self, names: Iterable[str] = ()) -> None:
        """Everything that is shown, and these."""
        self._stale.update(self.encoded, names)

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    def take_stale(self) -> set[str]:
        taken, self._stale = self._stale, set()
        return taken

    def renew(self, name: str) -> bool:
        """Make one record anew; whether it now says something else. One that cannot be made stays as it was."""
        try:
            record: Any = self._record(name)
        except Exception:
            log.exception("a record of the dashboard could not be made", name=name)
            return False
        before = self.encoded.get(name)
        if record is None:
            return self.encoded.pop(name, None) is not None
        after = _encode(record)
        if before is not None and bytes(before) == after:
            return False
        self.encoded[name] = Raw(after)
        return True


# Everything that the page shows, kept up to date piece by piece: what changes in the view only marks what to look at again.

# The operator has a lease to renew and reviews to answer: the loop is given back after so long.
SLICE_SECONDS = 0.008


class Shown(Struct, frozen=True):
    """Whose picture it is."""

    identity: str
    read_only: bool
    controllers: tuple[str, ...]
    leading: Callable[[], bool]


class Picture:
    """Told of changes by the stores (`changed`), by the loops (`acted`) and by the door (`recorded`)."""

    def __init__(
        self, view: View, rules: ClassRules, clock: Clock, shown: Shown, *, ports_per_container: int = 100
    ) -> None:
        self.version = 0
        self._view = view
        self._rules = rules
        self._clock = clock
        self._shown = shown
        self._ports_per_container = ports_per_container
        self._siblings = Siblings(view)
        self._tally = Tally(rules)
        self._timeline = Timeline()
        self._histories = Histories()
        self._groups: dict[str, GroupRecord] = {}
        self._new_points: dict[str, Point] = {}
        self._decided: dict[tuple[str, Key], Decided] = {}
        self._keys: dict[str, Key] = {}
        self._counted_on: dict[str, list[str]] = {}  # by node: the pods that wait and were packed there
        self._operator = self._who()
        self.nodes = Section(self._node)
        self.workloads = Section(self._workload)
        self.groups = Section(self._group)
        self.pending = Section(self._pending)
        self.allocations = Section(self._allocation)
        self._everything()
        for store in view.stores():
            store.listen(self.changed)

    # ── what is told to us ───────────────────────────────────────────────────────────────────────────────────────────

    def changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        """An object came, changed or went: mark what shows it."""
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
                    if before is None or after is None:  # its pods may have come first
                        self.nodes.touch(*(pod.spec.node_name for pod in self._view[PODS].by(BY_OWNER, state.uid)))
        if resource == NODES:
            self._tally.changed(before, after)

    def acted(self, controller: str, key: Key, decision: Decision, outcome: Outcome) -> None:
        """A key was decided about, and the door has done what it could."""
        if is_gone(decision):
            self._decided.pop((controller, key), None)
        else:
            self._decided[controller, key] = Decided(decision, outcome)
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

    # ── what we tell ─────────────────────────────────────────────────────────────────────────────────────────────────

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
        """Catch up, in slices; the change as JSON, or None where nothing that is shown has changed.

        It must not be cancelled half-way: what it has renewed by then would never be told.
        """
        self._siblings = Siblings(self._view)
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
        return _encode(PictureRecord(self.version, at, whole=False, operator=who, decisions=news, **changed))

    def whole(self) -> bytes:
        """As it was when it was last renewed."""
        sections: dict[str, Any] = {title: section.encoded for title, section in self._sections()}
        sections["groups"] = {
            name: Raw(_encode(replace(one, history=self._histories.of(name)))) for name, one in self._groups.items()
        }
        at, told = self._clock.now(), self._timeline.kept
        return _encode(PictureRecord(self.version, at, whole=True, operator=self._operator, decisions=told, **sections))

    def sample(self) -> None:
        """Remember how large the groups are now; asked once a minute, whether or not anyone looks."""
        now = int(self._clock.now().timestamp())
        for name in (*managed_groups(self._view), *self._tally.names()):
            record = self._group(name)
            if record is not None:
                self._remember(name, record, now)
        self._histories.forget_before(now - SECONDS_KEPT)

    # ── how it is made ───────────────────────────────────────────────────────────────────────────────────────────────

    def _sections(self) -> tuple[tuple[str, Section], ...]:
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
        shown = self._shown
        return OperatorRecord(shown.identity, shown.leading(), shown.read_only, shown.controllers, __version__)

    def _node(self, name: str) -> NodeRecord | None:
        return node_record(name, self._view, self._rules, self._siblings)

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
            pending_record(pod, decision.scale_up if decision is not None else ScaleUp(), self._view)
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
        record = group_record(name, self._view, self._rules, self._tally, self._about_groups)
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
        point: Point = sizes if record.price_per_hour is None else (*sizes, record.price_per_hour)
        self._histories.add(name, point)
        self._new_points[name] = point

    def _add_points(self, changed: dict[str, Raw | None]) -> None:
        """A group that has changed has a new point, and one whose point is new is told although nothing else changed."""
        now = int(self._clock.now().timestamp())
        for name in changed:
            if name in self._groups:
                self._remember(name, self._groups[name], now)
        for name, point in self._new_points.items():
            if name in self._groups and name in self.groups.encoded:
                changed[name] = Raw(_encode(replace(self._groups[name], point=point)))
        self._new_points.clear()
