"""Nodes leave the real control plane: budgets one by one, pods that bind at the last moment, a leader that dies in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.kube.types.resources import BUDGETS, NODES, PODS
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane

QUICK = {"underutilizationDuration": "1s", "cooldownSeconds": 1}


async def test_a_budget_lets_pods_go_one_by_one(control_plane: ControlPlane, stage: Stage) -> None:
    budget = {
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = await stage.client.create(BUDGETS, stage.namespace, budget)
    await stage.group(maxNodes=3, desiredNodes=2, scaleDownPolicy=QUICK)
    async with operating(control_plane, config(stage.namespace)) as running:
        await stage.settled(2)
        # Only now: the scheduler would give all of them to the node that comes first.
        await stage.workload("web", 4, cpu="300m", pod={"topologySpreadConstraints": [_spread("web")]})
        await stage.settled(2, pods=4)
        await stage.change(desiredNodes=0)
        await stage.event("ScaleDownBlocked", saying="PodDisruptionBudget")
        assert len(await stage.nodes()) == 2
        body = {"spec": {"maxUnavailable": 1}}
        await stage.client.patch(BUDGETS, stage.namespace, "web", body, uid=made.uid)
        await stage.settled(1, pods=4)
        labels = {"nodegroup": "workers", "namespace": stage.namespace, "reason": "NotEnoughPdb"}
        assert running.counted("vpsie_autoscaler_scale_down_blocked_total", **labels) >= 1
        assert running.counted("plimsoll_actions_total", controller="nodegroups", action="Evict", result="done") >= 2


async def test_a_pod_that_binds_during_the_drain_keeps_the_node(control_plane: ControlPlane, stage: Stage) -> None:
    """The scheduler's time to see the taint is over when the test says so: by then the pod is there for certain."""
    await stage.group(maxNodes=2, desiredNodes=1, scaleDownPolicy=QUICK)
    clock = PushedClock()
    async with operating(control_plane, config(stage.namespace), clock=clock, taint_wait=timedelta(hours=1)):
        await stage.settled(1)
        await stage.change(desiredNodes=0)
        node = await eventually(lambda: _tainted(stage), "the taint")
        pod = {
            "metadata": {"name": "late"},
            "spec": {"nodeName": node.name, "containers": [{"name": "main", "image": "example.org/none"}]},
        }
        await stage.client.create(PODS, stage.namespace, pod)
        clock.wall_offset = timedelta(hours=2)
        await eventually(lambda: _untainted(stage, node.name), "the taint is taken away again")
        await stage.event("ScaleDownBlocked", saying="no controller")
        late = await stage.client.get(PODS, stage.namespace, "late")
        assert not late.terminating
        assert late.spec.node_name == node.name
        await stage.client.delete(PODS, stage.namespace, "late", uid=late.uid, grace_seconds=0)


@pytest.mark.soak  # a dozen operators one after the other: minutes on a busy machine
async def test_another_leader_goes_on_in_every_phase(control_plane: ControlPlane, stage: Stage) -> None:
    """The operator is stopped again and again while nodes come and go; what one began another ends."""
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 5)

    async def in_slices(nodes: int, pods: int) -> None:
        for number in range(60):
            async with operating(control_plane, config(stage.namespace), name=f"leader-{number}"):
                try:
                    await stage.settled(nodes, pods=pods, seconds=0.4 + 0.3 * number)
                except AssertionError:
                    continue
                return
        raise AssertionError(f"never came to {nodes} nodes")

    await in_slices(3, 5)
    await stage.scale("web", 1)
    await in_slices(1, 1)
    machines = await stage.client.list(NODES, label_selector="plimsoll.dev/provider=kwok")
    own = [node for node in machines.items if any(taint.value == stage.namespace for taint in node.spec.taints)]
    assert len(own) == 1, "no machine is left over"


def _spread(app: str) -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }


async def _tainted(stage: Stage):
    return next((node for node in await stage.nodes() if any(t.key == DRAIN_TAINT for t in node.spec.taints)), None)


async def _untainted(stage: Stage, name: str) -> bool:
    await asyncio.sleep(0)
    node = await stage.client.get(NODES, "", name)
    (member,) = await stage.members()
    return member.phase == "Ready" and not any(taint.key == DRAIN_TAINT for taint in node.spec.taints)
