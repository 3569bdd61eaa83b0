"""Rollouts: on-demand pods stay between the minimum and the target plus the surge, and the split at the end is exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.controllers.placement.target import CapacityClass, Share, target
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import DeploymentStrategy, RollingUpdate
from plimsoll.kube.types.resources import PODS, REPLICASETS
from tests import build
from tests.placement.admission_scene import ON_DEMAND, SPOT, SPOT_LABEL, Scene, annotations_of, workload


class Rollout:
    """A Deployment whose old ReplicaSet stands at its target, and the Deployment controller with maxUnavailable 0."""

    def __init__(self, replicas: int, share: Share, surge: int) -> None:
        self.replicas, self.share, self.surge = replicas, share, surge
        deployment, old = workload(replicas, f"{share.spot_percentage}%", str(share.min_on_demand))
        strategy = DeploymentStrategy(rolling_update=RollingUpdate(max_surge=surge))
        deployment = replace(deployment, spec=replace(deployment.spec, strategy=strategy))
        self.new = build.replica_set("web-2", replicas=0, owner=deployment)
        nodes = build.node("spot", labels=SPOT_LABEL), build.node("od")
        self.scene = Scene(deployment, old, self.new, nodes=nodes)
        split = target(replicas, share)
        self.old = {SPOT: split.spot, ON_DEMAND: split.on_demand}
        self.pods: dict[CapacityClass, list[str]] = {SPOT: [], ON_DEMAND: []}
        for capacity_class, count in self.old.items():
            for number in range(count):
                name = f"old-{capacity_class.value}-{number}"
                self.pods[capacity_class].append(name)
                self.scene.view[PODS].put(build.pod(name, owner=old, node="spot" if capacity_class is SPOT else "od"))
        self.created = {SPOT: 0, ON_DEMAND: 0}
        self.history = [self.on_demand]

    @property
    def on_demand(self) -> int:
        return self.old[ON_DEMAND] + self.created[ON_DEMAND]

    def create(self) -> None:
        grown = self.scene.view[REPLICASETS].get("default", "web-2")
        assert grown is not None
        count = grown.spec.replicas + 1
        self.scene.view[REPLICASETS].put(replace(grown, spec=replace(grown.spec, replicas=count)))
        answer = self.scene.admit(self.new)
        found = answer.assignment.capacity_class
        node = "spot" if found is SPOT else "od"
        self.scene.view[PODS].put(build.pod(owner=self.new, node=node, annotations=annotations_of(answer)))
        self.created[found] += 1
        self.history.append(self.on_demand)

    def delete(self) -> None:
        """In the order `capacity`: the class that exceeds the target for one replica fewer."""
        spot, on_demand = self.old[SPOT], self.old[ON_DEMAND]
        gone = SPOT if spot > target(spot + on_demand - 1, self.share).spot else ON_DEMAND
        self.old[gone] -= 1
        self.scene.view[PODS].remove("default", self.pods[gone].pop())
        self.history.append(self.on_demand)

    def run(self) -> None:
        while (created := sum(self.created.values())) < self.replicas or sum(self.old.values()) > 0:
            total = created + sum(self.old.values())
            if created < self.replicas and total < self.replicas + self.surge:
                self.create()
            else:
                self.delete()


@pytest.mark.parametrize("surge", [1, 2, 4])
def test_four_replicas_of_which_two_must_be_on_demand(surge: int):
    rollout = Rollout(4, Share(2, 50), surge)
    rollout.run()
    assert rollout.created == {SPOT: 2, ON_DEMAND: 2}
    assert min(rollout.history) >= 2
    assert max(rollout.history) <= 2 + surge


@given(st.integers(1, 12), st.integers(0, 100), st.integers(0, 12), st.integers(1, 6))
def test_for_every_count_share_and_surge(replicas: int, percentage: int, minimum: int, surge: int):
    share = Share(min(minimum, replicas), percentage)
    rollout = Rollout(replicas, share, surge)
    rollout.run()
    split = target(replicas, share)
    assert rollout.created == {SPOT: split.spot, ON_DEMAND: split.on_demand}, "exact, so that nothing is evicted"
    assert min(rollout.history) >= share.min_on_demand
    assert max(rollout.history) <= split.on_demand + surge


@pytest.mark.parametrize(
    ("strategy", "surge"),
    [({}, 3), ({"rollingUpdate": {"maxSurge": "10%"}}, 1), ({"rollingUpdate": {"maxSurge": 4}}, 4),
     ({"rollingUpdate": {"maxSurge": "x"}}, 0), ({"type": "Recreate"}, 0)],
)  # fmt: skip
def test_the_surge_of_ten_replicas(strategy: dict[str, Any], surge: int):
    assert convert(strategy, DeploymentStrategy).surge(10) == surge
