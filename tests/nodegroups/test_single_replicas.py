"""The only replica of a workload keeps its node unless people allow to move it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from tests.nodegroups.world import World

QUICK = {"underutilizationDuration": "20s", "cooldownSeconds": 1}


def half_empty(settings: dict[str, Any], policy: dict[str, Any], annotations: dict[str, str]) -> World:
    """Two nodes with one small pod each, of two workloads of one replica."""
    world = World(NodeGroupSettings(unschedulable_pod_grace=timedelta(0), **settings))
    world.group(scaleDownPolicy={**QUICK, **policy})
    world.workload("large", 2, cpu="1500m")
    world.run(20)
    for name, node in zip(("a", "b"), sorted(one.node_name for one in world.members()), strict=True):
        world.workload(name, 0, cpu="200m", annotations=annotations)
        world.bind(name, node)
    world.scale("large", 0)
    world.run(180)
    return world


@pytest.mark.parametrize(
    ("settings", "policy", "annotations", "nodes"),
    [
        ({}, {}, {}, 2),
        ({"single_replicas": "allow"}, {}, {}, 1),
        ({}, {"singleReplicas": "allow"}, {}, 1),
        ({}, {}, {"plimsoll.dev/single-replica": "allow"}, 1),
        ({"single_replicas": "allow"}, {"singleReplicas": "never"}, {}, 2),
        ({"single_replicas": "allow"}, {}, {"plimsoll.dev/single-replica": "never"}, 2),
        ({"single_replicas": "allow"}, {}, {"plimsoll.dev/single-replica": "perhaps"}, 1),
    ],
)
def test_who_decides(settings: dict[str, Any], policy: dict[str, Any], annotations: dict[str, str], nodes: int) -> None:
    world = half_empty(settings, policy, annotations)
    assert len(world.members()) == nodes
    assert len([pod for pod in world.pods() if pod.spec.node_name]) == 2
