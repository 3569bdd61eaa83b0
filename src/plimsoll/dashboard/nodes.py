"""Node records: zone, group, state, requested resources, and one cell per pod."""

from __future__ import annotations

from plimsoll.controllers.nodegroups.patches import drain_taint
from plimsoll.controllers.nodegroups.types import BY_NODE_NAME, NODE_GROUP, VPSIE_NODES, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS, assigned_class
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.dashboard.records import NodeRecord, NodeState, PodCell, PodState
from plimsoll.disruption.interrupted_nodes import leaving
from plimsoll.kube.cache.store import View
from plimsoll.kube.labels import ZONE
from plimsoll.kube.types.core import Node, Pod, PodSpec
from plimsoll.kube.types.meta import Labels
from plimsoll.kube.types.resources import BY_NODE, NODES, PODS, REPLICASETS, Key
from plimsoll.scheduling.pod_requests import allocatable, effective_requests, resized_spec

# Group labels of node provisioners; the first one that a node has counts.
GROUP_LABELS = (
    NODE_GROUP,
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_UNINITIALISED = "node.cloudprovider.kubernetes.io/uninitialized"


class OwnerCache:
    """Caches what pods of one owner share: their workload and their requests.

    Valid for one renewal of the snapshot, since owners may change.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[str, str] = {}
        self._requested: dict[tuple[int, ...], tuple[PodSpec, int, int]] = {}

    def requested(self, spec: PodSpec) -> tuple[PodSpec, int, int]:
        """The spec with its CPU and memory requests. Pods of one owner share interned parts of the spec (`kube/cache/interning.py`)."""
        parts = (id(spec.containers), id(spec.init_containers), id(spec.resources), id(spec.overhead))
        found = self._requested.get(parts)
        if found is None:
            requests = effective_requests(spec)
            # Keeping the spec alive keeps the ids in the key unique.
            found = self._requested[parts] = (spec, requests.get("cpu", 0), requests.get("memory", 0))
        return found

    def workload(self, pod: Pod) -> str:
        owner = pod.metadata.controller
        if owner is None:
            return str(PODS.key(pod))
        found = self._known.get(owner.uid)
        if found is None:
            found = self._known[owner.uid] = self._above(owner.kind, pod.namespace, owner.name, owner.uid)
        return found

    def _above(self, kind: str, namespace: str, name: str, uid: str) -> str:
        if kind == "ReplicaSet" and REPLICASETS in self._view:
            replica_set = self._view[REPLICASETS].get(namespace, name)
            above = replica_set.metadata.controller if replica_set is not None and replica_set.uid == uid else None
            if above is not None:
                return str(Key(above.kind, namespace, above.name))
        return str(Key(kind, namespace, name))


def node_record(name: str, view: View, rules: ClassRules, owners: OwnerCache) -> NodeRecord | None:
    """The record of a node or of a machine that will join under this name; None if there is neither."""
    node = view[NODES].get("", name)
    member = _member(name, view)
    if node is None:
        return _coming(member, rules) if member is not None else None
    capacity_class = rules.of_labels(node.labels).value
    cells: list[PodCell] = []
    cpu = memory = 0
    for pod in view[PODS].by(BY_NODE, name):
        cells.append(_cell(pod, owners.workload(pod), capacity_class))
        if not pod.finished:
            _, its_cpu, its_memory = owners.requested(resized_spec(pod) if pod.metadata.generation > 1 else pod.spec)
            cpu += its_cpu
            memory += its_memory
    room = allocatable(node.status.allocatable)
    return NodeRecord(
        zone=node.labels.get(ZONE, ""),
        group=member.group if member is not None else labelled_group(node.labels),
        capacity_class=capacity_class,
        state=state_of(node),
        cpu=(cpu, room.get("cpu", 0)),
        memory=(memory, room.get("memory", 0)),
        pods=cells,
    )


def labelled_group(labels: Labels) -> str:
    return next((labels[label] for label in GROUP_LABELS if label in labels), "")


def state_of(node: Node) -> NodeState:
    if drain_taint(node) is not None:
        return "draining"
    if node.terminating or leaving(node) is not None:
        return "leaving"
    if not node.ready:
        starting = any(taint.key == _UNINITIALISED for taint in node.spec.taints)
        return "coming" if starting else "not-ready"
    return "cordoned" if node.spec.unschedulable else "ready"


def _member(name: str, view: View) -> VPSieNode | None:
    found = view[VPSIE_NODES].by(BY_NODE_NAME, name) if VPSIE_NODES in view else ()
    return found[0] if found else None


def _coming(member: VPSieNode, rules: ClassRules) -> NodeRecord | None:
    if member.being_removed:
        return None
    return NodeRecord("", member.group, rules.of_labels(member.labels).value, "coming", (0, 0), (0, 0), [])


def _cell(pod: Pod, workload: str, node_class: str) -> PodCell:
    name, state = pod.metadata.name, pod_state(pod)
    if pod.metadata.annotations.get(CLASS, node_class) != node_class and (meant := assigned_class(pod)) is not None:
        return (name, workload, state, meant.value)
    return (name, workload, state)


def pod_state(pod: Pod) -> PodState:
    if pod.finished:
        return "f"
    if pod.metadata.deletion_timestamp is not None:
        return "t"
    # `pod.ready` inlined: a generator per pod is slow for fifty thousand pods.
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return "r" if condition.status == "True" else "s"
    return "s"
