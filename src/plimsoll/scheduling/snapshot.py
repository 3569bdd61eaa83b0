"""The cluster as the packing engine sees it: nodes, their pods, claims, volumes and namespaces, as arrays.

Built by `snapshot_cache` from a view of the cache. The `*Facts` structs hold only what rules read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.kube.types.core import Namespace, Node, NodeSelector, Pod, Taint
from plimsoll.kube.types.meta import KubeObject, Labels
from plimsoll.kube.types.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, TopologyTerm
from plimsoll.scheduling.pod_equivalence import PodClasses
from plimsoll.scheduling.pod_requests import allocatable

_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class NodeFacts(Struct, frozen=True):
    """What rules read of a node."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]

    @classmethod
    def of(cls, node: Node) -> NodeFacts:
        return cls(
            node.name, node.labels, node.spec.taints, node.spec.unschedulable, allocatable(node.status.allocatable)
        )


class ClaimFacts(Struct, frozen=True):
    volume: str  # "" while unbound
    selected_node: str  # where the volume of an unbound claim is being provisioned
    terminating: bool
    storage_class: str = ""
    one_pod_only: bool = False  # ReadWriteOncePod

    @classmethod
    def of(cls, claim: PersistentVolumeClaim) -> ClaimFacts:
        spec = claim.spec
        return cls(
            spec.volume_name,
            claim.annotations.get(_SELECTED_NODE, ""),
            claim.terminating,
            spec.storage_class_name or "",
            "ReadWriteOncePod" in spec.access_modes,
        )


class StorageClassFacts(Struct, frozen=True):
    provisioner: str
    waits_for_pod: bool  # WaitForFirstConsumer: a claim is bound after its pod was scheduled
    topologies: tuple[TopologyTerm, ...]

    @classmethod
    def of(cls, found: StorageClass) -> StorageClassFacts:
        return cls(found.provisioner, found.volume_binding_mode == "WaitForFirstConsumer", found.allowed_topologies)


class VolumeFacts(Struct, frozen=True):
    affinity: NodeSelector | None
    labels: Labels
    driver: str = ""  # of a CSI volume
    handle: str = ""

    @classmethod
    def of(cls, volume: PersistentVolume) -> VolumeFacts:
        affinity, csi = volume.spec.node_affinity, volume.spec.csi
        required = affinity.required if affinity else None
        return cls(required, volume.labels, csi.driver if csi else "", csi.volume_handle if csi else "")


def attach_limits(node: CSINode) -> dict[str, int]:
    """Return the attach limit by driver; drivers without one are left out."""
    limits = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: at.count for name, at in limits if at is not None and at.count is not None}


if TYPE_CHECKING:
    from plimsoll.scheduling.node_rows import NodeRows

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]

_HANDED_OVER = (
    "classes",
    "capacity",
    "used",
    "pod_rows",
    "pod_classes",
    "pod_shapes",
    "namespaces",
    "claims",
    "volumes",
    "storage_classes",
    "csi_limits",
    "attached",
)
_MADE_LATER = ("uids", "pod_names", "slots", "pods_on", "_free_slots")


class CacheChange(Struct, frozen=True):
    """One object before and after, as reported by a store. None before: created; None after: deleted."""

    before: KubeObject | None
    after: KubeObject | None


class _Place(NamedTuple):
    """A pod whose node does not exist (any more). Nodes and pods may arrive in any order."""

    name: str
    class_index: int
    shape_index: int


class Snapshot:
    def __init__(self) -> None:
        self.classes = PodClasses()
        self.nodes: list[NodeFacts | None] = []  # by row; None where a node was deleted
        self.rows: dict[str, int] = {}
        self.pods_on: list[dict[int, None]] = []  # by row: the slots of its pods, in order of arrival
        self.capacity: Ints = np.zeros((0, 0), np.int64)  # resource × row
        self.used: Ints = np.zeros((0, 0), np.int64)
        self.uids: list[str] = []  # by slot; "" where a pod was deleted
        self.pod_names: list[str] = []  # by slot, for messages
        self.slots: dict[str, int] = {}
        self.pod_rows: Rows = np.zeros(0, np.int32)  # -1 where a pod was deleted
        self.pod_classes: Rows = np.zeros(0, np.int32)
        self.pod_shapes: Rows = np.zeros(0, np.int32)
        self.namespaces: dict[str, Labels] = {}
        self.claims: dict[tuple[str, str], ClaimFacts] | None = None  # None: claims are not watched
        self.volumes: dict[str, VolumeFacts] | None = None
        self.storage_classes: dict[str, StorageClassFacts] | None = None  # None: not watched
        self.csi_limits: dict[str, dict[str, int]] | None = None  # node → driver → volumes; None: not watched
        self.attached: dict[str, tuple[str, ...]] = {}  # node → status.volumesAttached
        self.node_rows: NodeRows | None = None  # derived from the nodes; reset when one of them changes
        self.version = 0  # changes with every permanent change, which invalidates derived results
        self._free_rows: list[int] = []
        self._free_slots: list[int] = []
        self._orphans: dict[str, dict[str, _Place]] = {}  # node name → pod UID → pod
        self._orphan_node: dict[str, str] = {}
        self._undo: list[Callable[[], None]] | None = None

    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        namespaces: Iterable[Namespace] = (),
        claims: Iterable[PersistentVolumeClaim] | None = None,
        volumes: Iterable[PersistentVolume] | None = None,
        storage_classes: Iterable[StorageClass] | None = None,
        csi_nodes: Iterable[CSINode] | None = None,
    ) -> Snapshot:
        """Build a snapshot. Pods that are bound and not finished use resources; others are ignored.

        Without `claims` or `volumes` nothing is known of them: they exclude no node, and plans note that.
        """
        self = cls()
        for node in nodes:
            self.rows[node.name] = len(self.nodes)
            self.nodes.append(NodeFacts.of(node))
            self.pods_on.append({})
            self._note_attached(node)
        self._enter_all(pods)
        self.capacity = np.zeros((len(self.classes.resources), len(self.nodes)), np.int64)
        self.used = np.zeros_like(self.capacity)
        for row, facts in enumerate(self.nodes):
            if facts is not None:
                self._write_capacity(row, facts)
        self._write_used()
        self.namespaces = {namespace.name: namespace.labels for namespace in namespaces}
        self.claims = (
            None if claims is None else {(claim.namespace, claim.name): ClaimFacts.of(claim) for claim in claims}
        )
        self.volumes = None if volumes is None else {volume.name: VolumeFacts.of(volume) for volume in volumes}
        if storage_classes is not None:
            self.storage_classes = {found.name: StorageClassFacts.of(found) for found in storage_classes}
        if csi_nodes is not None:
            self.csi_limits = {node.name: limits for node in csi_nodes if (limits := attach_limits(node))}
        return self

    def _note_attached(self, node: Node) -> None:
        if node.status.volumes_attached:
            self.attached[node.name] = tuple(volume.name for volume in node.status.volumes_attached)
        else:
            self.attached.pop(node.name, None)

    def _enter_all(self, pods: Iterable[Pod]) -> None:
        rows, pods_on = self.rows, self.pods_on
        pod_rows, pod_classes, pod_shapes, uids, names = [], [], [], self.uids, self.pod_names
        bound = [pod for pod in pods if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed")]
        for pod, class_index, shape_index in zip(bound, *self.classes.of_all(bound), strict=True):
            meta, name = pod.metadata, pod.spec.node_name
            row = rows.get(name)
            if row is None:
                self._add_orphan(meta.uid, name, _Place(meta.name, class_index, shape_index))
                continue
            pods_on[row][len(uids)] = None
            uids.append(meta.uid)
            names.append(meta.name)
            pod_rows.append(row)
            pod_classes.append(class_index)
            pod_shapes.append(shape_index)
        self.slots = {uid: slot for slot, uid in enumerate(uids)}
        self.pod_rows = np.array(pod_rows, np.int32)
        self.pod_classes = np.array(pod_classes, np.int32)
        self.pod_shapes = np.array(pod_shapes, np.int32)

    # ── handing over ─────────────────────────────────────────────────────────────────────────────────────────────────

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: arrays, nodes encoded by msgspec (ten times as fast as pickle), names as
        two long strings, and nothing that can be derived.
        """
        state = {name: getattr(self, name) for name in _HANDED_OVER}
        state["nodes"] = msgspec.msgpack.encode(self.nodes)
        state["names"] = ("\n".join(self.uids), "\n".join(self.pod_names))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state.pop("names")
        state["nodes"] = msgspec.msgpack.decode(state["nodes"], type=list[NodeFacts | None])
        self.__init__()  # type: ignore[misc]
        self.__dict__.update(state)
        self.rows = {facts.name: row for row, facts in enumerate(self.nodes) if facts is not None}
        self._free_rows = [row for row, facts in enumerate(self.nodes) if facts is None]
        # Attributes that only some requests need are created on first access.
        for name in _MADE_LATER:
            del self.__dict__[name]
        self.__dict__["_names"] = names

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATER or "_names" not in self.__dict__:
            raise AttributeError(name)
        uids, pod_names = self.__dict__.pop("_names")
        self.uids = uids.split("\n") if uids else []
        self.pod_names = pod_names.split("\n") if uids else []
        rows = self.pod_rows[: len(self.uids)].tolist()
        self.slots = {uid: slot for slot, uid in enumerate(self.uids) if uid}
        self._free_slots = [slot for slot, uid in enumerate(self.uids) if not uid]
        self.pods_on = [{} for _ in self.nodes]
        for slot, row in enumerate(rows):
            if row >= 0:
                self.pods_on[row][slot] = None
        return self.__dict__[name]

    # ── following the store ──────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, changes: Iterable[CacheChange]) -> None:
        """Apply changes of nodes, pods, namespaces, claims and volumes."""
        for change in changes:
            before, after = change.before, change.after
            match after if after is not None else before:
                case Node():
                    self._follow_node(before, after)
                case Pod() as pod:
                    if before is not None:
                        self.remove(before.uid)
                    if after is not None and pod.spec.node_name and not pod.finished:
                        self.add(pod, pod.spec.node_name)
                case Namespace() as namespace:
                    if after is None:
                        self.namespaces.pop(namespace.name, None)
                    else:
                        self.namespaces[namespace.name] = namespace.labels
                case PersistentVolumeClaim() as claim:
                    self.claims = {} if self.claims is None else self.claims
                    if after is None:
                        self.claims.pop((claim.namespace, claim.name), None)
                    else:
                        self.claims[claim.namespace, claim.name] = ClaimFacts.of(claim)
                case PersistentVolume() as volume:
                    self.volumes = {} if self.volumes is None else self.volumes
                    if after is None:
                        self.volumes.pop(volume.name, None)
                    else:
                        self.volumes[volume.name] = VolumeFacts.of(volume)
                case StorageClass() as found:
                    self.storage_classes = {} if self.storage_classes is None else self.storage_classes
                    if after is None:
                        self.storage_classes.pop(found.name, None)
                    else:
                        self.storage_classes[found.name] = StorageClassFacts.of(found)
                case CSINode() as csi_node:
                    self.csi_limits = {} if self.csi_limits is None else self.csi_limits
                    self.csi_limits.pop(csi_node.name, None)
                    if after is not None and (limits := attach_limits(csi_node)):
                        self.csi_limits[csi_node.name] = limits
            self.version += 1

    def _follow_node(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if isinstance(after, Node):
            facts = NodeFacts.of(after)
            self._note_attached(after)
            row = self.rows.get(after.name)
            if row is None:
                self.add_node(facts)
            elif self.nodes[row] != facts:
                self.nodes[row] = facts
                self.node_rows = None
                self._write_capacity(row, facts)
        elif before is not None:
            self.attached.pop(before.name, None)
            self.remove_node(before.name)

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node without checking rules."""
        class_index, shape_index = self.classes.of(pod)
        self._add(pod.uid, node_name, _Place(pod.name, class_index, shape_index))

    def add_alike(self, uid: str, name: str, class_index: int, shape_index: int, node_name: str) -> None:
        """Like `add`, in another process that does not have the pod itself."""
        self._add(uid, node_name, _Place(name, class_index, shape_index))

    def remove(self, uid: str) -> None:
        """Remove a pod from its node; an unknown pod is ignored."""
        self.version += 1
        orphan_node = self._orphan_node.pop(uid, None)
        if orphan_node is not None:
            place = self._orphans[orphan_node].pop(uid)
            if self._undo is not None:
                self._undo.append(lambda: self._add(uid, orphan_node, place))
            return
        slot = self.slots.pop(uid, None)
        if slot is None:
            return
        row = int(self.pod_rows[slot])
        place = self._place_at(slot)
        facts = self.nodes[row]
        assert facts is not None, "a row with pods has a node"  # noqa: S101 - an invariant of the arrays
        for resource, amount in self.classes.shapes[place.shape_index]:
            self.used[resource, row] -= amount
        del self.pods_on[row][slot]
        self.uids[slot] = ""
        self.pod_rows[slot] = -1
        self._free_slots.append(slot)
        if self._undo is not None:
            self._undo.append(lambda: self._add(uid, facts.name, place))

    def add_node(self, facts: NodeFacts) -> None:
        self.version += 1
        self.node_rows = None
        if self._free_rows:
            row = self._free_rows.pop()
            self.nodes[row] = facts
        else:
            row = len(self.nodes)
            self.nodes.append(facts)
            self.pods_on.append({})
            self._reserve_row(row)
        self.rows[facts.name] = row
        self.used[:, row] = 0
        self._write_capacity(row, facts)
        if self._undo is not None:
            self._undo.append(lambda: self.remove_node(facts.name))
        for uid, place in list(self._orphans.get(facts.name, {}).items()):
            self.remove(uid)
            self._add(uid, facts.name, place)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are kept aside until it returns or they are removed."""
        row = self.rows.get(name)
        if row is None:
            return
        left = [(self.uids[slot], slot) for slot in self.pods_on[row]]
        places = [self._place_at(slot) for _, slot in left]
        for uid, _ in left:
            self.remove(uid)
        facts = self.nodes[row]
        assert facts is not None, "a named row has a node"  # noqa: S101
        del self.rows[name]
        self.nodes[row] = self.node_rows = None
        self.capacity[:, row] = 0
        self._free_rows.append(row)
        self.version += 1
        if self._undo is not None:
            self._undo.append(lambda: self.add_node(facts))
        for (uid, _), place in zip(left, places, strict=True):
            self._add_orphan(uid, name, place)
            if self._undo is not None:
                self._undo.append(lambda uid=uid: self.remove(uid))  # type: ignore[misc]

    @contextmanager
    def trial(self) -> Iterator[Snapshot]:
        """Undo everything that `add`, `remove`, `add_node` and `remove_node` change inside the block."""
        outer, self._undo = self._undo, []
        before = self.version
        try:
            yield self
        finally:
            steps, self._undo = self._undo, None
            for step in reversed(steps):
                step()
            self._undo, self.version = outer, before

    # ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _place_at(self, slot: int) -> _Place:
        return _Place(self.pod_names[slot], int(self.pod_classes[slot]), int(self.pod_shapes[slot]))

    def _add(self, uid: str, node_name: str, place: _Place) -> None:
        self.version += 1
        if self._undo is not None:
            self._undo.append(lambda: self.remove(uid))
        row = self.rows.get(node_name)
        if row is None:
            self._add_orphan(uid, node_name, place)
            return
        slot = self._free_slots.pop() if self._free_slots else self._new_slot()
        self.uids[slot] = uid
        self.pod_names[slot] = place.name
        self.slots[uid] = slot
        self.pod_rows[slot] = row
        self.pod_classes[slot] = place.class_index
        self.pod_shapes[slot] = place.shape_index
        self.pods_on[row][slot] = None
        self._reserve_resources()
        for resource, amount in self.classes.shapes[place.shape_index]:
            self.used[resource, row] += amount

    def _add_orphan(self, uid: str, node_name: str, place: _Place) -> None:
        self._orphans.setdefault(node_name, {})[uid] = place
        self._orphan_node[uid] = node_name

    def _new_slot(self) -> int:
        slot = len(self.uids)
        self.uids.append("")
        self.pod_names.append("")
        if slot >= len(self.pod_rows):
            more = max(256, slot)
            self.pod_rows = np.concatenate((self.pod_rows, np.full(more, -1, np.int32)))
            self.pod_classes = np.concatenate((self.pod_classes, np.zeros(more, np.int32)))
            self.pod_shapes = np.concatenate((self.pod_shapes, np.zeros(more, np.int32)))
        return slot

    def _reserve_row(self, row: int) -> None:
        if row >= self.capacity.shape[1]:
            more = np.zeros((self.capacity.shape[0], max(64, row)), np.int64)
            self.capacity = np.concatenate((self.capacity, more), axis=1)
            self.used = np.concatenate((self.used, more), axis=1)

    def _reserve_resources(self) -> None:
        missing = len(self.classes.resources) - self.capacity.shape[0]
        if missing > 0:
            more = np.zeros((missing, self.capacity.shape[1]), np.int64)
            self.capacity = np.concatenate((self.capacity, more))
            self.used = np.concatenate((self.used, more))

    def _write_capacity(self, row: int, facts: NodeFacts) -> None:
        indexes = [(self.classes.resource(name), amount) for name, amount in facts.allocatable.items()]
        self._reserve_resources()
        self.capacity[:, row] = 0
        for resource, amount in indexes:
            self.capacity[resource, row] = amount

    def _write_used(self) -> None:
        amounts = self.shape_amounts()
        used = np.zeros_like(self.capacity)
        for resource in range(used.shape[0]):
            weights = amounts[resource][self.pod_shapes]
            if weights.any():
                # Sums in float64 are exact below 2^53, and every amount is capped at 2^52.
                used[resource] = np.bincount(self.pod_rows, weights, minlength=used.shape[1]).astype(np.int64)
        self.used = used

    def described(self, slot: int) -> str:
        """Return namespace/name of a pod."""
        return f"{self.classes.classes[int(self.pod_classes[slot])].namespace}/{self.pod_names[slot]}"

    def first_named(self, slots: Iterable[int]) -> str:
        """Return the first of several pods by name, independent of their order of arrival."""
        return min(self.described(slot) for slot in slots)

    def shape_amounts(self) -> Ints:
        """Resource × shape: the amounts."""
        table = np.zeros((len(self.classes.resources), max(1, len(self.classes.shapes))), np.int64)
        for index, shape in enumerate(self.classes.shapes):
            for resource, amount in shape:
                table[resource, index] = amount
        return table
