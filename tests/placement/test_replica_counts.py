"""Which pods count, and as what."""

from __future__ import annotations

import pytest

from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.replica_counts import Counts, count, count_of_workload, replicas
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.workloads import pods_of
from tests import build
from tests.placement.scene import ON_DEMAND, SPOT, Scene, on_demand_node, spot_node

RULES = ClassRules()


def counted(scene: Scene) -> Counts:
    return count_of_workload(scene.workload, scene.view(), RULES)


@pytest.mark.parametrize(
    ("fields", "spot", "on_demand"),
    [
        ({"node": "spot-1", "mark": ON_DEMAND}, 1, 0),  # by the node it runs on, whatever it was meant for
        ({"node": "od-1", "mark": SPOT}, 0, 1),
        ({"node": "", "phase": "Pending", "mark": SPOT}, 1, 0),  # as what it was admitted for
        ({"node": "", "phase": "Pending", "mark": ON_DEMAND}, 0, 1),
        ({"node": "", "phase": "Pending"}, 0, 1),
        ({"node": "", "phase": "Pending", "annotations": {"plimsoll.dev/placement-class": "nonsense"}}, 0, 1),
        ({"node": "not in view", "mark": SPOT}, 1, 0),
        ({"node": "spot-1", "terminating": True}, 0, 0),
        ({"node": "spot-1", "phase": "Succeeded"}, 0, 0),
        ({"node": "spot-1", "phase": "Failed"}, 0, 0),
    ],
)
def test_a_pod_counts_as(fields: dict[str, object], spot: int, on_demand: int):
    scene = Scene(replicas=1)
    scene.pod("one", **fields)  # type: ignore[arg-type]
    found = counted(scene)
    assert (found.spot, found.on_demand) == (spot, on_demand)


def test_pods_on_a_node_that_is_about_to_go_are_told_beside_and_are_not_counted_on_to_stay_ready():
    scene = Scene(replicas=4)
    scene.add(
        spot_node("spot-2", "aws-node-termination-handler/spot-itn"), on_demand_node("od-2", "karpenter.sh/disrupted")
    )
    for node in ("spot-1", "spot-2", "od-1", "od-2"):
        scene.pod(f"on-{node}", node=node)
    assert counted(scene) == Counts(2, 2, interrupted_spot=1, interrupted_on_demand=1, ready=2, ready_on_demand=1)


def test_a_replica_set_is_counted_by_itself_and_a_deployment_over_all_of_its_own():
    scene = Scene(replicas=2)
    scene.running(1, 1)
    older = build.replica_set("web-0", replicas=1, owner=scene.workload)
    scene.add(older, build.pod("older", owner=older, node="spot-1"), build.pod("stranger", node="spot-1"))
    assert counted(scene).spot == 2
    assert isinstance(scene.owner, ReplicaSet)
    assert count(replicas(pods_of(scene.owner, scene.view()), scene.view(), RULES)).spot == 1
    assert count(replicas(pods_of(older, scene.view()), scene.view(), RULES)).total == 1
