"""Is there a place for the replacement? Asked before anyone is evicted: a move to nowhere is an outage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.placement.capacity_class import ClassRules, RulesInUse, terms_with_class
from plimsoll.controllers.placement.rebalance.guards import Move
from plimsoll.controllers.placement.rebalance.reservations import Promises
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload_state import Seen
from plimsoll.disruption.interrupted_nodes import receives_nobody
from plimsoll.kube.cache.store import Name, View
from plimsoll.kube.types.core import Affinity, Metadata, Node, NodeAffinity, NodeSelector, Pod, PodSpec
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.growth_options import NodeMaker, Prospects
from plimsoll.scheduling.model import EXISTING, Packing
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot_cache import Picture


class Places(Struct, frozen=True):
    """Replacements and where they would run, by the UIDs of the pods that they replace."""

    at_hand: Mapping[str, str] = {}  # a node that is there
    to_come: Mapping[str, str] = {}  # a node that is not: in words, who brings it
    replacements: tuple[Pod, ...] = ()


class Rooms:
    """The packing engine's picture of the view, kept from one question to the next because it is dear to make.

    What it answers depends on the view, with which the picture catches up before each question, and on the places that are
    promised to moves which the view does not show yet. Nodes that nothing should be moved to are not in it.
    """

    def __init__(self, rules: ClassRules, maker: NodeMaker | None = None) -> None:
        """maker: who brings further nodes where those at hand are not enough."""
        self._rules = RulesInUse(rules)
        self._maker = maker
        self._picture = Picture()
        self._snapshot = self._picture.snapshot
        self._waiting: dict[Name, Pod] = {}  # pods that have no node yet, and will take theirs before ours comes
        self._promises = Promises()
        self._unhoused: dict[str, Pod] = {}  # stand-ins that were promised a node which is not there yet

    def places_for(self, seen: Seen, moves: Sequence[Move]) -> Places | Blocker:
        """Where each replacement would run; or why not all would find a place."""
        self._follow(seen.view)
        for uid in (*self._promises.renewed(seen.key, seen.view), *self._promises.ended(seen.view, seen.now)):
            self._snapshot.remove(uid)
            self._unhoused.pop(uid, None)
        waiting = [*self._waiting.values(), *self._unhoused.values()]
        wanted = tuple(replacement(move, seen.workload.spec.template.spec, self._rules.now) for move in moves)
        at_hand = self._at_hand(waiting, wanted)
        if not at_hand.unplaced:
            return Places(at_hand.placements, replacements=wanted)
        prospects = self._maker.prospects(seen.view, seen.now) if self._maker is not None else Prospects()
        with self._snapshot.trial():
            found = self._with_more_nodes(waiting, wanted, prospects)
        return found or _nowhere(moves, at_hand, prospects)

    def _at_hand(self, waiting: Sequence[Pod], wanted: Sequence[Pod]) -> Packing:
        with self._snapshot.trial():
            if waiting:
                by_uid = {pod.uid: pod for pod in waiting}
                for uid, node in pack(self._snapshot, waiting).placements.items():
                    self._snapshot.add(by_uid[uid], node)
            return pack(self._snapshot, wanted)

    def _with_more_nodes(self, waiting: Sequence[Pod], wanted: tuple[Pod, ...], prospects: Prospects) -> Places | None:
        """None if not all would find a place, or if someone who waits already would lose theirs."""
        if not (prospects.templates or prospects.coming):
            return None
        for node in prospects.coming:
            self._snapshot.remove_node(node.name)  # it may have joined; until it is ready, it is only coming
        together = pack(self._snapshot, [*waiting, *wanted], prospects.templates, coming=prospects.coming)
        ours = {pod.uid for pod in wanted}
        if not together.unplaced.keys().isdisjoint(ours):
            return None
        if together.unplaced:
            without = pack(self._snapshot, waiting, prospects.templates, coming=prospects.coming)
            if len(without.unplaced) < len(together.unplaced):
                return None
        bringing = {node.name: f"node group {node.template} makes a node" for node in together.new_nodes}
        bringing |= {node.name: f"node {node.name} is coming" for node in prospects.coming}
        homes = {uid: together.placements[uid] for uid in ours}
        return Places(
            {uid: name for uid, name in homes.items() if name not in bringing},
            {uid: bringing[name] for uid, name in homes.items() if name in bringing},
            wanted,
        )

    def promise(self, seen: Seen, moves: Sequence[Move], places: Places) -> None:
        """These are about to be moved: the places of their replacements are taken from now on."""
        stand_ins = []
        for move, coming in zip(moves, places.replacements, strict=True):
            # Under a name of its own: the pod that it replaces is still in the picture.
            name, uid = f"{coming.name}-next", f"{coming.uid}-next"
            stand_in = replace(coming, metadata=replace(coming.metadata, name=name, uid=uid))
            if coming.uid in places.at_hand:
                self._snapshot.add(stand_in, places.at_hand[coming.uid])
            else:
                self._unhoused[uid] = stand_in
            stand_ins.append((move.replica.pod, uid))
        self._promises.make(seen.key, stand_ins, seen.now)

    def _follow(self, view: View) -> None:
        for change in self._picture.follow(view):
            match change.after if change.after is not None else change.before:
                case Pod() as pod:
                    self._waiting.pop((pod.namespace, pod.name), None)
                    if change.after is not None and _waits(pod):
                        self._waiting[pod.namespace, pod.name] = pod
                case Node() as node:
                    self._rules.node_changed(change.before, change.after)
                    if change.after is not None and receives_nobody(node):
                        self._snapshot.remove_node(node.name)  # the picture puts it back when it changes


def _nowhere(moves: Sequence[Move], at_hand: Packing, prospects: Prospects) -> Blocker:
    move = next(move for move in moves if move.replica.pod.uid in at_hand.unplaced)
    refusals = at_hand.unplaced[move.replica.pod.uid]
    why = f": {refusals[EXISTING].message}" if EXISTING in refusals else ""
    message = f"the replacement of pod {move.replica.pod.name} fits on no {move.to.value} node{why}"
    groups = [f"a node of group {template.name} would not take it" for template in prospects.templates]
    return Blocker("NoPlaceToMovePods", "; ".join((message, *groups, *prospects.unable)))


def _waits(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates)


def replacement(move: Move, template: PodSpec, rules: ClassRules) -> Pod:
    """The pod that will come: the template's, with its class as admission gives it, and the volumes of the one that goes."""
    gone = move.replica.pod
    meta = Metadata(name=gone.name, namespace=gone.namespace, uid=gone.uid, labels=gone.labels)
    return Pod(metadata=meta, spec=replace(of_class(template, move.to, rules), node_name="", volumes=gone.spec.volumes))


def of_class(spec: PodSpec, wanted: CapacityClass, rules: ClassRules) -> PodSpec:
    affinity = spec.affinity or Affinity()
    by_node = affinity.node_affinity or NodeAffinity()
    own = by_node.required.node_selector_terms if by_node.required else ()
    try:
        terms = terms_with_class(own, rules.requirements(wanted))
    except ValueError:
        return spec  # it runs nowhere, on any class
    by_node = replace(by_node, required=NodeSelector(terms))
    return replace(
        spec,
        affinity=replace(affinity, node_affinity=by_node),
        tolerations=(*spec.tolerations, *rules.tolerations(wanted)),
    )
