"""A node stays while a workload needs its replicas there for its minimum on demand."""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.placement.replica_counts import minimum_on_demand
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS, Resource
from tests import build

ASKED = {"spotalis.io/enabled": "true", "spotalis.io/min-on-demand": "2", "spotalis.io/spot-percentage": "50%"}


def test_counted_over_the_workload() -> None:
    web = build.deployment("web", replicas=4, annotations=ASKED)
    version = build.replica_set("web-1", replicas=4, owner=web)
    nodes = [build.node("n1"), build.node("n2"), build.node("spot", labels={"karpenter.sh/capacity-type": "spot"})]

    def blocker(*places: str) -> str:
        pods = [build.pod(owner=version, node=place) for place in places]
        objects: dict[Resource[Any], list[Any]] = {
            DEPLOYMENTS: [web],
            REPLICASETS: [version],
            STATEFULSETS: [],
            PODS: pods,
        }
        objects[NODES] = nodes
        found = minimum_on_demand(
            [pod for pod in pods if pod.spec.node_name == "n1"], View.of(objects), PlacementSettings()
        )
        return found.code if found is not None else ""

    assert blocker("n1", "n2", "n2", "spot") == ""
    assert blocker("n1", "n1", "n2", "spot") == "MinimumOnDemand", "one of two would be left"
    assert blocker("n1", "n2", "spot", "spot") == "MinimumOnDemand"
