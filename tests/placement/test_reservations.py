"""Two workloads that are decided about in the same moment do not count on the same free place."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, SPOT_PERCENTAGE
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Key,
)
from tests import build
from tests.build import START
from tests.placement.scene import SPOT_LABEL, codes, evicted, on_demand_node, spot_node, stamp, stores


class Pair:
    """Two workloads of four, all on-demand, half of which should be on spot; so many of them find a place there."""

    def __init__(self, *, free: int, **settings: object) -> None:
        self.settings = PlacementSettings(**settings)  # type: ignore[arg-type]
        kinds = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, BUDGETS, NAMESPACES, CLAIMS, VOLUMES)
        self.stores = stores(dict.fromkeys((*kinds, self.settings.memory), ()))
        self.view, self.now = View(self.stores), START
        self.controller = PlacementController(self.settings)
        self.stores[NODES].put(spot_node(pods=free))
        self.stores[NODES].put(on_demand_node())
        self.owners = {name: self._workload(name) for name in ("a", "b")}

    def _workload(self, name: str) -> ReplicaSet:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main"}]}}
        body = {
            "metadata": build.metadata(name, annotations={ENABLED: "true", SPOT_PERCENTAGE: "50%"}, generation=1),
            "spec": {"replicas": 4, "selector": {"matchLabels": {"app": name}}, "template": template},
            "status": {
                "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4,
            },
        }  # fmt: skip
        workload = convert(body, Deployment)
        self.stores[DEPLOYMENTS].put(workload)
        owner = build.replica_set(f"{name}-1", replicas=4, owner=workload)
        self.stores[REPLICASETS].put(owner)
        for number in range(4):
            self.stores[PODS].put(build.pod(f"{name}-1-{number}", owner=owner, node="od-1", labels={"app": name}))
        return owner

    def decide(self, name: str, *, after: timedelta = timedelta(0)) -> PlacementDecision:
        return self.controller.decide(Key("Deployment", "default", name), self.view, self.now + after)

    def leave(self, name: str) -> None:
        """The pod terminates, as after an eviction."""
        pod = self.stores[PODS].get("default", name)
        assert pod is not None
        self.stores[PODS].put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now)))

    def replace_by(self, name: str, owner: str, node: str = "") -> Pod:
        made = build.pod(
            name, owner=self.owners[owner], node=node, labels={"app": owner}, annotations={CLASS: "spot"},
            phase="Running" if node else "Pending", creationTimestamp=stamp(self.now), spec={"nodeSelector": SPOT_LABEL},
        )  # fmt: skip
        self.stores[PODS].put(made)
        return made


def test_the_last_place_is_counted_on_once():
    pair = Pair(free=1)
    assert len(evicted(pair.decide("a"))) == 1
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"]


def test_with_room_for_both_both_move():
    pair = Pair(free=2)
    assert len(evicted(pair.decide("a"))) == 1
    assert len(evicted(pair.decide("b"))) == 1


def test_the_place_stays_taken_from_the_eviction_to_the_replacement_and_by_it():
    pair = Pair(free=1)
    (first,) = evicted(pair.decide("a"))
    pair.leave(first)
    assert codes(pair.decide("b", after=timedelta(minutes=5))) == ["NoPlaceToMovePods"], "not replaced yet"
    pair.replace_by("next", "a")
    assert codes(pair.decide("b", after=timedelta(minutes=5))) == ["NoPlaceToMovePods"], "it waits for its node"
    pair.replace_by("next", "a", node="spot-1")
    assert codes(pair.decide("b", after=timedelta(minutes=5))) == ["NoPlaceToMovePods"], "it is there"


def test_a_place_that_came_meanwhile_is_free_for_the_other():
    """The replacement is in view before its workload is looked at again: it is not counted twice."""
    pair = Pair(free=2)
    (first,) = evicted(pair.decide("a"))
    pair.leave(first)
    pair.replace_by("next", "a", node="spot-1")
    assert len(evicted(pair.decide("b"))) == 1


def test_an_eviction_that_was_not_sent_gives_its_place_back():
    pair = Pair(free=1)
    assert evicted(pair.decide("a"))
    assert codes(pair.decide("b", after=timedelta(seconds=29))) == ["NoPlaceToMovePods"]
    assert evicted(pair.decide("b", after=timedelta(seconds=31)))


def test_a_workload_that_is_decided_anew_does_not_stand_in_its_own_way():
    pair = Pair(free=1)
    assert evicted(pair.decide("a")) == evicted(pair.decide("a")) != []


def test_a_workload_that_is_gone_takes_no_place():
    pair = Pair(free=1)
    assert evicted(pair.decide("a"))
    pair.stores[DEPLOYMENTS].remove("default", "a")
    for number in range(4):
        pair.stores[PODS].remove("default", f"a-1-{number}")
    assert evicted(pair.decide("b"))


@pytest.mark.parametrize("key", ["aws-node-termination-handler/spot-itn", "DeletionCandidateOfClusterAutoscaler"])
def test_a_node_that_goes_is_no_place_until_it_stays_after_all(key: str):
    """Also where the taint alone would keep nobody away."""
    pair = Pair(free=2)
    going, staying = spot_node(pods=2, taint=key, effect="PreferNoSchedule"), spot_node(pods=2)
    pair.stores[NODES].put(going)
    assert codes(pair.decide("a")) == ["NoPlaceToMovePods"]
    pair.stores[NODES].put(staying)
    assert len(evicted(pair.decide("a"))) == 1
    pair.stores[NODES].put(going)
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"]


def test_where_someone_else_makes_nodes_nothing_is_counted():
    pair = Pair(free=0, external_autoscaler=True)
    assert evicted(pair.decide("a"))
    assert evicted(pair.decide("b"))


def test_a_replacement_that_comes_between_two_questions_ends_its_promise():
    pair = Pair(free=2)
    (first,) = evicted(pair.decide("a"))
    pair.leave(first)
    assert evicted(pair.decide("b")), "a's is promised, and the other one is free"
    pair.replace_by("next", "a", node="spot-1")
    assert evicted(pair.decide("b")), "a's is taken, and no longer promised beside"


def test_a_workload_that_goes_before_its_pods_takes_no_place_once_they_are_gone():
    pair = Pair(free=1)
    assert evicted(pair.decide("a"))
    pair.stores[DEPLOYMENTS].remove("default", "a")
    pair.stores[REPLICASETS].remove("default", "a-1")
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"]
    for number in range(4):
        pair.stores[PODS].remove("default", f"a-1-{number}")
    assert evicted(pair.decide("b"))


def test_what_another_view_shows_counts():
    """The same cluster in stores that were not followed before, as of a copy: anything may have happened between the two."""
    pair = Pair(free=2)
    (first,) = evicted(pair.decide("a"))
    pair.leave(first)
    assert evicted(pair.decide("b"))
    pair.stores = {store.resource: store.copy() for store in pair.view.stores()}
    pair.view = View(pair.stores)
    pair.replace_by("next", "a", node="spot-1")
    assert evicted(pair.decide("b"))
