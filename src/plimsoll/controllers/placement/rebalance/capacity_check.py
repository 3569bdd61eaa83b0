"""Prove, before an eviction, that the replacement pod would be scheduled on its new class.

The controller calls `CapacityCheck.find_destinations` after every other check has passed, and `reserve` when it evicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.placement.capacity_class import ClassRules, RulesInUse, terms_with_class
from plimsoll.controllers.placement.rebalance.move_checks import Move
from plimsoll.controllers.placement.rebalance.reservations import Reservations
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.interrupted_nodes import receives_nobody
from plimsoll.kube.cache.store import Name, View
from plimsoll.kube.types.core import Affinity, Node, NodeAffinity, NodeSelector, Pod, PodSpec
from plimsoll.kube.types.meta import Metadata
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.growth_options import GrowthOptions, NodeProvisioner
from plimsoll.scheduling.model import EXISTING, Packing
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.snapshot_cache import SnapshotCache


class Destinations(Struct, frozen=True):
    """Where each replacement would run, by the UID of the pod that it replaces."""

    existing: Mapping[str, str] = {}  # name of a node that exists
    coming: Mapping[str, str] = {}  # for a node that does not exist yet: a phrase that says who provides it
    replacements: tuple[Pod, ...] = ()


class CapacityCheck:
    """Simulates the scheduling of replacement pods on a cached snapshot of the cluster.

    The snapshot is cached because it is expensive to build; it catches up with the view before each check. Capacity that is
    reserved for moves under way counts as used. Nodes that are, or may be, about to be removed are left out.
    """

    def __init__(self, rules: ClassRules, provisioner: NodeProvisioner | None = None) -> None:
        """provisioner: adds nodes where the existing ones have no room; None: nobody does."""
        self._rules = RulesInUse(rules)
        self._provisioner = provisioner
        self._snapshots = SnapshotCache()
        self._waiting: dict[Name, Pod] = {}  # pending pods: they are scheduled before our replacement
        self._reservations = Reservations()
        self._without_node: dict[str, Pod] = {}  # placeholders whose node does not exist yet

    @property
    def _snapshot(self) -> Snapshot:
        return self._snapshots.snapshot

    def find_destinations(self, state: WorkloadState, moves: Sequence[Move]) -> Destinations | Blocker:
        """Where each replacement would run, or the blocker if not all of them can be scheduled."""
        self._follow(state.view)
        for uid in (
            *self._reservations.release_undone(state.key, state.view),
            *self._reservations.release_finished(state.view, state.now),
        ):
            self._snapshot.remove(uid)
            self._without_node.pop(uid, None)
        waiting = [*self._waiting.values(), *self._without_node.values()]
        wanted = tuple(replacement(move, state.workload.spec.template.spec, self._rules.current) for move in moves)
        on_existing = self._on_existing_nodes(waiting, wanted)
        if not on_existing.unplaced:
            return Destinations(on_existing.placements, replacements=wanted)
        growth_options = (
            self._provisioner.growth_options(state.view, state.now)
            if self._provisioner is not None
            else GrowthOptions()
        )
        with self._snapshot.trial():
            found = self._with_more_nodes(waiting, wanted, growth_options)
        return found or _no_capacity(moves, on_existing, growth_options)

    def _on_existing_nodes(self, waiting: Sequence[Pod], wanted: Sequence[Pod]) -> Packing:
        with self._snapshot.trial():
            if waiting:
                by_uid = {pod.uid: pod for pod in waiting}
                for uid, node in pack(self._snapshot, waiting).placements.items():
                    self._snapshot.add(by_uid[uid], node)
            return pack(self._snapshot, wanted)

    def _with_more_nodes(
        self, waiting: Sequence[Pod], wanted: tuple[Pod, ...], growth_options: GrowthOptions
    ) -> Destinations | None:
        """None if a replacement cannot be scheduled even on new nodes, or if it would take the place of a pending pod."""
        if not (growth_options.templates or growth_options.coming):
            return None
        for node in growth_options.coming:
            self._snapshot.remove_node(node.name)  # it may have joined already; until it is ready it counts as coming
        together = pack(self._snapshot, [*waiting, *wanted], growth_options.templates, coming=growth_options.coming)
        ours = {pod.uid for pod in wanted}
        if not together.unplaced.keys().isdisjoint(ours):
            return None
        if together.unplaced:
            without = pack(self._snapshot, waiting, growth_options.templates, coming=growth_options.coming)
            if len(without.unplaced) < len(together.unplaced):
                return None
        provided_by = {node.name: f"node group {node.template} adds a node" for node in together.new_nodes}
        provided_by |= {node.name: f"node {node.name} is coming" for node in growth_options.coming}
        nodes = {uid: together.placements[uid] for uid in ours}
        return Destinations(
            {uid: name for uid, name in nodes.items() if name not in provided_by},
            {uid: provided_by[name] for uid, name in nodes.items() if name in provided_by},
            wanted,
        )

    def reserve(self, state: WorkloadState, moves: Sequence[Move], destinations: Destinations) -> None:
        """Count the capacity of these moves' replacements as used from now on."""
        placeholders = []
        for move, coming in zip(moves, destinations.replacements, strict=True):
            # The placeholder needs a name of its own: the pod that it replaces is still in the snapshot.
            name, uid = f"{coming.name}-next", f"{coming.uid}-next"
            placeholder = replace(coming, metadata=replace(coming.metadata, name=name, uid=uid))
            if coming.uid in destinations.existing:
                self._snapshot.add(placeholder, destinations.existing[coming.uid])
            else:
                self._without_node[uid] = placeholder
            placeholders.append((move.replica.pod, uid))
        self._reservations.add(state.key, placeholders, state.now)

    def _follow(self, view: View) -> None:
        for change in self._snapshots.follow(view):
            match change.after if change.after is not None else change.before:
                case Pod() as pod:
                    self._waiting.pop((pod.namespace, pod.name), None)
                    if change.after is not None and _is_pending(pod):
                        self._waiting[pod.namespace, pod.name] = pod
                case Node() as node:
                    self._rules.node_changed(change.before, change.after)
                    if change.after is not None and receives_nobody(node):
                        self._snapshot.remove_node(node.name)  # the snapshot adds it again when it changes


def _no_capacity(moves: Sequence[Move], on_existing: Packing, growth_options: GrowthOptions) -> Blocker:
    move = next(move for move in moves if move.replica.pod.uid in on_existing.unplaced)
    reasons = on_existing.unplaced[move.replica.pod.uid]
    why = f": {reasons[EXISTING].message}" if EXISTING in reasons else ""
    message = f"the replacement of pod {move.replica.pod.name} fits on no {move.to.value} node{why}"
    groups = [f"a node of group {template.name} would not fit it" for template in growth_options.templates]
    return Blocker("NoPlaceToMovePods", "; ".join((message, *groups, *growth_options.unable)))


def _is_pending(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates)


def replacement(move: Move, template: PodSpec, rules: ClassRules) -> Pod:
    """The pod that will be created: the template with the class as admission assigns it, and the volumes of the old pod."""
    old = move.replica.pod
    meta = Metadata(name=old.name, namespace=old.namespace, uid=old.uid, labels=old.labels)
    spec = of_class(template, move.to, rules)
    # Unknown fields are noticed on pods, not in templates of workloads.
    kept = {"volumes": old.spec.volumes, "unknown_fields": old.spec.unknown_fields}
    return Pod(metadata=meta, spec=replace(spec, node_name="", **kept))


def of_class(spec: PodSpec, wanted: CapacityClass, rules: ClassRules) -> PodSpec:
    affinity = spec.affinity or Affinity()
    by_node = affinity.node_affinity or NodeAffinity()
    own = by_node.required.node_selector_terms if by_node.required else ()
    try:
        terms = terms_with_class(own, rules.requirements(wanted))
    except ValueError:
        return spec  # it matches no node of any class
    by_node = replace(by_node, required=NodeSelector(terms))
    return replace(
        spec,
        affinity=replace(affinity, node_affinity=by_node),
        tolerations=(*spec.tolerations, *rules.tolerations(wanted)),
    )
