"""A cluster with a question, the engine's answer to it, and that answer as the checker wants it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.kube.codec import builtins, convert
from plimsoll.kube.types.core import Namespace, Node, NodeSpec, NodeStatus, Pod, Taint
from plimsoll.kube.types.meta import Labels, Metadata, Resources
from plimsoll.kube.types.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from plimsoll.scheduling.model import ComingNode, NodeOffering, Packing, Template
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot
from tests.scheduling import menus
from tests.scheduling.checker import Placement, Situation
from tests.scheduling.rules import matches_node, untolerated_taints

# ── the world around every case ──────────────────────────────────────────────────────────────────────────────────────


def _volume(claim: str, namespace: str) -> dict[str, Any]:
    labels, affinity = {}, None
    if claim == "in-z1":
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_in_zones("z1")]}]}}
    elif claim == "labelled-z2":
        labels = {menus.ZONE: "z2"}
    elif claim == "regional":
        labels = {menus.ZONE: "z2__z3"}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_in_zones("z2", "z3")]}]}}
    spec = {"nodeAffinity": affinity} if affinity else {}
    return {"metadata": {"name": f"pv-{namespace}-{claim}", "labels": labels}, "spec": spec}


def _in_zones(*zones: str) -> dict[str, Any]:
    return {"key": menus.ZONE, "operator": "In", "values": list(zones)}


def _claim(claim: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {"volumeName": f"pv-{namespace}-{claim}"},
        "status": {"phase": "Bound"},
    }


NAMESPACES = tuple(
    convert({"metadata": {"name": name, "labels": labels}}, Namespace) for name, labels in menus.NAMESPACES.items()
)
VOLUMES = tuple(convert(_volume(c, ns), PersistentVolume) for ns in menus.NAMESPACES for c in menus.CLAIMS)
CLAIMS = tuple(convert(_claim(c, ns), PersistentVolumeClaim) for ns in menus.NAMESPACES for c in menus.CLAIMS)


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pod(name: str, *fragments: Mapping[str, Any], namespace: str = "blue", node: str = "", uid: str = "") -> Pod:
    identity: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}}
    if node:
        identity["spec"] = {"nodeName": node}
    return convert(menus.merge(*fragments, identity), Pod)


def node(
    name: str,
    capacity: Mapping[str, Any] = menus.CAPACITIES[0],
    *,
    zone: str = "",
    labels: Mapping[str, str] = {},
    taints: Sequence[Mapping[str, Any]] = (),
    unschedulable: bool = False,
) -> Node:
    own_labels = {menus.HOSTNAME: name, **({menus.ZONE: zone} if zone else {}), **labels}
    manifest = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": own_labels},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": dict(capacity), "capacity": dict(capacity)},
    }
    return convert(manifest, Node)


def offering(name: str, capacity: Mapping[str, Any], price: float, **more: Any) -> NodeOffering:
    return convert({"name": name, "labels": {}, "allocatable": dict(capacity), "price": price, **more}, NodeOffering)


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _told(part) for key, part in value.items() if part not in (None, {}, [], "")}
    return [_told(part) for part in value] if isinstance(value, list) else value


# ── a question and its answer ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Case:
    nodes: tuple[Node, ...] = ()
    bound: tuple[Pod, ...] = ()
    pending: tuple[Pod, ...] = ()
    templates: tuple[Template, ...] = ()
    coming: tuple[ComingNode, ...] = ()
    namespaces: tuple[Namespace, ...] = NAMESPACES
    claims: tuple[PersistentVolumeClaim, ...] = CLAIMS
    volumes: tuple[PersistentVolume, ...] = VOLUMES
    storage_classes: tuple[StorageClass, ...] | None = None
    csi_nodes: tuple[CSINode, ...] | None = None

    def __repr__(self) -> str:
        """What a failure shows: the case as JSON, one object a line, without what every case has."""
        kinds = ("nodes", "bound", "pending", "templates", "coming")
        return "\n".join(f"{kind} {json.dumps(_told(obj))}" for kind in kinds for obj in builtins(getattr(self, kind)))

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        # Else hypothesis writes every field of every object.
        printer.text(repr(self))

    def snapshot(self) -> Snapshot:
        return Snapshot.build(
            self.nodes,
            self.bound,
            namespaces=self.namespaces,
            claims=self.claims,
            volumes=self.volumes,
            storage_classes=self.storage_classes,
            csi_nodes=self.csi_nodes,
        )

    def at_hand(self) -> Situation:
        return Situation(self.nodes, self.bound, namespaces=self.namespaces, claims=self.claims, volumes=self.volumes)

    def situation(self) -> Situation:
        """The nodes at hand and those that are coming, as they will be."""
        now = self.at_hand()
        for ordered in self.coming:
            labels = {menus.HOSTNAME: ordered.name, **ordered.labels}
            made = _made(ordered.name, labels, ordered.allocatable, ordered.taints)
            _start(now, made, ordered.daemons)
        return now

    def make_node(self, now: Situation, name: str, template: Template, offering: NodeOffering) -> Node:
        """Add a node as the template promises it, with the daemons that it admits."""
        labels = {**template.labels, **offering.labels, menus.HOSTNAME: name}
        made = _made(name, labels, offering.allocatable, template.taints)
        _start(now, made, template.daemons)
        return made


def _made(name: str, labels: Labels, allocatable: Resources, taints: tuple[Taint, ...]) -> Node:
    return Node(
        metadata=Metadata(name=name, labels=labels),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=allocatable, capacity=allocatable),
    )


def _start(now: Situation, made: Node, daemons: tuple[Pod, ...]) -> None:
    now.add_node(made)
    for daemon in daemons:
        # Affinity and taints decide where a DaemonSet runs; that there is no room does not.
        if matches_node(daemon, made) and not untolerated_taints(daemon, made):
            now.place(daemon, made.name)


@dataclass(frozen=True)
class Plan:
    """A packing in the checker's terms: the situation with all new nodes in it, and what was placed, in order."""

    packing: Packing
    before: Situation
    placements: tuple[Placement, ...]
    unplaced: tuple[Pod, ...] = field(default=())


def plan_of(case: Case) -> Plan:
    """Ask the engine."""
    return read(case, pack(case.snapshot(), case.pending, case.templates, coming=case.coming))


def read(case: Case, packing: Packing) -> Plan:
    before = case.situation()
    templates = {template.name: template for template in case.templates}
    for new in packing.new_nodes:
        template = templates[new.template]
        chosen = next(offering for offering in template.offerings if offering.name == new.offering)
        case.make_node(before, new.name, template, chosen)
    pods = {pod.uid: pod for pod in case.pending}
    return Plan(
        packing,
        before,
        tuple(Placement(pods[uid], name) for uid, name in packing.placements.items()),
        tuple(pod for pod in case.pending if pod.uid not in packing.placements),
    )
