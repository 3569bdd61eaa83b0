"""Is there a place for the replacement? Asked before anyone is evicted: a move to nowhere is an outage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from plimsoll.decision import Blocker
from plimsoll.kube.resources import NODES
from plimsoll.kube.store import Name, View
from plimsoll.kube.types import Affinity, Metadata, Node, NodeAffinity, NodeSelector, Pod, PodSpec
from plimsoll.placement.classes import ClassRules, terms_with_class
from plimsoll.placement.distribution import CapacityClass
from plimsoll.placement.guards import Move
from plimsoll.placement.leaving import receives_nobody
from plimsoll.placement.promises import Promises
from plimsoll.placement.seen import Seen
from plimsoll.scheduling.model import EXISTING
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.picture import Picture


class Rooms:
    """The packing engine's picture of the view, kept from one question to the next because it is dear to make.

    What it answers depends on the view, which the picture is compared with before each question, object by object, and on the
    places that are promised to moves which the view does not show yet.
    """

    def __init__(self) -> None:
        self._picture = Picture()
        self._snapshot = self._picture.snapshot
        self._waiting: dict[Name, Pod] = {}  # pods that have no node yet, and will take theirs before ours comes
        self._shunned: set[str] = set()  # nodes that nothing should be moved to
        self._promises = Promises()

    def places_for(self, seen: Seen, moves: Sequence[Move]) -> Mapping[str, str] | Blocker:
        """The node that each replacement would find, by the UID of the pod that it replaces; or why not all would find one."""
        self._follow(seen.view)
        for uid in (*self._promises.renewed(seen.key, seen.view), *self._promises.ended(seen.view, seen.now)):
            self._snapshot.remove(uid)
        with self._snapshot.trial():
            for name in self._shunned:
                self._snapshot.remove_node(name)
            waiting = {pod.uid: pod for pod in self._waiting.values()}
            if waiting:
                for uid, node in pack(self._snapshot, waiting.values()).placements.items():
                    self._snapshot.add(waiting[uid], node)
            packing = pack(self._snapshot, [replacement(move, seen) for move in moves])
        for move in moves:
            refusals = packing.unplaced.get(move.replica.pod.uid)
            if refusals is not None:
                why = f": {refusals[EXISTING].message}" if EXISTING in refusals else ""
                message = f"the replacement of pod {move.replica.pod.name} fits on no {move.to.value} node{why}"
                return Blocker("NoPlaceToMovePods", message)
        return packing.placements

    def promise(self, seen: Seen, moves: Sequence[Move], places: Mapping[str, str]) -> None:
        """These are about to be moved: the places of their replacements are taken from now on."""
        stand_ins = []
        for move in moves:
            coming = replacement(move, seen)
            # Under a name of its own: the pod that it replaces is still in the picture.
            name, uid = f"{coming.name}-next", f"{coming.uid}-next"
            self._snapshot.add(
                replace(coming, metadata=replace(coming.metadata, name=name, uid=uid)), places[coming.uid]
            )
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
                    self._shunned.discard(node.name)
                    if change.after is not None and receives_nobody(node):
                        self._shunned.add(node.name)


def _waits(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.terminating or pod.finished or pod.spec.scheduling_gates)


def replacement(move: Move, seen: Seen) -> Pod:
    """The pod that will come: the template's, with its class as admission gives it, and the volumes of the one that goes."""
    gone = move.replica.pod
    spec = of_class(seen.workload.spec.template.spec, move.to, seen.settings.rules.in_use(seen.view[NODES]))
    meta = Metadata(name=gone.name, namespace=gone.namespace, uid=gone.uid, labels=gone.labels)
    return Pod(metadata=meta, spec=replace(spec, node_name="", volumes=gone.spec.volumes))


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
