"""Capacity checks and reservations without caches, as a reference.

The caches of `rebalance.capacity_check` and `rebalance.reservations` must not change any decision. `fleet` compares each decision with
the one that is made with these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.placement.controller import PlacementController, PlacementState
from plimsoll.controllers.placement.rebalance.capacity_check import Destinations, _no_capacity, replacement
from plimsoll.controllers.placement.rebalance.move_checks import Move
from plimsoll.controllers.placement.rebalance.reservations import SENT_WITHIN
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.workload import workload_at
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.interrupted_nodes import receives_nobody
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, Key
from plimsoll.kube.workloads import active, pods_of
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.growth_options import GrowthOptions, NodeProvisioner
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.snapshot import Snapshot


class Promised(Struct, frozen=True):
    key: Key
    leaving: Pod
    stand_in: Pod
    node: str  # "" for one that is not there yet
    at: datetime


class UncachedCapacity:
    def __init__(self, maker: NodeProvisioner | None) -> None:
        self._maker = maker
        self.promised: list[Promised] = []

    def find_destinations(self, state: WorkloadState, moves: Sequence[Move]) -> Destinations | Blocker:
        view = state.view
        self._forget(state)
        nodes = [node for node in view[NODES] if not receives_nobody(node)]
        snapshot = Snapshot.build(
            nodes, view[PODS], namespaces=view[NAMESPACES], claims=view[CLAIMS], volumes=view[VOLUMES]
        )
        for promise in self.promised:
            if promise.node:
                snapshot.add(promise.stand_in, promise.node)
        waiting = [pod for pod in view[PODS] if active(pod) and not pod.spec.node_name]
        waiting += [promise.stand_in for promise in self.promised if not promise.node]
        rules = state.settings.rules.in_use(node.labels for node in view[NODES])
        wanted = tuple(replacement(move, state.workload.spec.template.spec, rules) for move in moves)
        with snapshot.trial():
            by_uid = {pod.uid: pod for pod in waiting}
            for uid, node in pack(snapshot, waiting).placements.items():
                snapshot.add(by_uid[uid], node)
            at_hand = pack(snapshot, wanted)
        if not at_hand.unplaced:
            return Destinations(at_hand.placements, replacements=wanted)
        growth_options = self._maker.growth_options(view, state.now) if self._maker is not None else GrowthOptions()
        together = pack(snapshot, [*waiting, *wanted], growth_options.templates)
        without = pack(snapshot, waiting, growth_options.templates)
        ours = {pod.uid for pod in wanted}
        if together.unplaced.keys() & ours or len(without.unplaced) < len(together.unplaced):
            return _no_capacity(moves, at_hand, growth_options)
        made = {node.name: f"node group {node.template} adds a node" for node in together.new_nodes}
        homes = {uid: together.placements[uid] for uid in ours}
        return Destinations(
            {uid: name for uid, name in homes.items() if name not in made},
            {uid: made[name] for uid, name in homes.items() if name in made},
            wanted,
        )

    def reserve(self, state: WorkloadState, moves: Sequence[Move], places: Destinations) -> None:
        for move, coming in zip(moves, places.replacements, strict=True):
            meta = replace(coming.metadata, name=f"{coming.name}-next", uid=f"{coming.uid}-next")
            stand_in = replace(coming, metadata=meta)
            node = places.existing.get(coming.uid, "")
            self.promised.append(Promised(state.key, move.replica.pod, stand_in, node, state.now))

    def _forget(self, state: WorkloadState) -> None:
        view = state.view
        left = [p for p in self.promised if p.key != state.key or not _is_there(p.leaving, view)]
        for key in dict.fromkeys(promise.key for promise in left):
            of_key = [promise for promise in left if promise.key == key]
            there = [promise for promise in of_key if _is_there(promise.leaving, view)]
            over = [promise for promise in there if state.now >= promise.at + SENT_WITHIN]
            if len(there) < len(of_key):
                over += _replaced(key, [promise for promise in of_key if promise not in over], view)
            left = [promise for promise in left if promise not in over]
        self.promised = left


def _is_there(pod: Pod, view: View) -> bool:
    found = view[PODS].get(pod.namespace, pod.name)
    return found is not None and found.uid == pod.uid and active(found)


def _replaced(key: Key, promises: list[Promised], view: View) -> list[Promised]:
    workload = workload_at(key, view)
    if workload is None:
        return promises
    leaving = {promise.leaving.uid for promise in promises}
    staying = sum(1 for pod in pods_of(workload, view) if active(pod) and pod.uid not in leaving)
    lacking = max(0, workload.spec.replicas - staying)
    return promises[: max(0, len(promises) - lacking)]


def uncached_controller(
    settings: PlacementSettings, maker: NodeProvisioner | None, rooms: UncachedCapacity
) -> PlacementController:
    """One that has kept nothing but what was promised."""
    state = PlacementState(settings, maker)
    kept: Any = rooms
    state.capacity = kept
    return PlacementController(settings, state)
