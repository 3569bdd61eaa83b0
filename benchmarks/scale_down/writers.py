"""Three ways to write deletion costs: not at all, as the reference controller does, and as we do."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.scale_down.model import World, cost_of, zone_of
from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms
from plimsoll.controllers.deletion_cost.algorithms.zone import Zone
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.deletion_cost.replicaset_ranking import decided_by_cost
from plimsoll.controllers.deletion_cost.spec import HIGHEST_COST, DeletionCostSettings
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from plimsoll.runtime.decision import Patch


class KubernetesAlone:
    name = "Kubernetes alone"

    def __init__(self) -> None:
        self.writes = 0

    def look(self, _: World) -> timedelta | None:
        return None


class ReferenceAlgorithm:
    """The specification's seven steps, with what the reference implementation is known to do where they say nothing: a
    sibling that is not running holds everyone up, and a value once written stays."""

    name = "reference algorithm"

    def __init__(self) -> None:
        self.writes = 0

    def look(self, world: World) -> timedelta | None:
        for replica_set in world.replica_sets.values():
            pods = world.pods_of(replica_set)
            if any(pod.status.phase != "Running" for pod in pods):
                continue
            for pod in pods:
                if COST in pod.annotations or not decided_by_cost(pod):
                    continue
                zone = zone_of(world.nodes[pod.spec.node_name])
                siblings = (world.pods[other.uid] for other in pods)
                used = {
                    cost_of(other)
                    for other in siblings
                    if COST in other.annotations and zone_of(world.nodes[other.spec.node_name]) == zone
                }
                value = HIGHEST_COST
                while value in used:
                    value -= 1
                world.annotate(pod.uid, {COST: str(value)})
                self.writes += 1
        return None


class Plimsoll:
    """The controller itself: its decisions are carried out until it has no more."""

    name = "zone"

    def __init__(self, settings: DeletionCostSettings = DeletionCostSettings()) -> None:  # noqa: B008 - frozen
        self.writes = 0
        self.rewrites = 0
        self._controller = DeletionCostController(settings, Algorithms({"zone": Zone()}))

    def look(self, world: World) -> timedelta | None:
        while True:
            view = View.of(
                {
                    DEPLOYMENTS: [world.deployment],
                    REPLICASETS: world.replica_sets.values(),
                    PODS: world.pods.values(),
                    NODES: world.nodes.values(),
                }
            )
            decision = self._controller.decide(DEPLOYMENTS.key(world.deployment), view, world.now)
            if not decision.actions:
                return decision.requeue_after
            for action in decision.actions:
                assert isinstance(action, Patch)
                assert isinstance(action.body, dict)
                world.annotate(action.target.uid, action.body["metadata"]["annotations"])
                self.writes += 1
                self.rewrites += action.why.code == "HoleClosed"
