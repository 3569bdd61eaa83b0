"""From no node to as many as pods need, and back, on the real control plane."""

from __future__ import annotations

from tests.eventually import eventually
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane


async def test_from_zero_to_three_and_back_to_the_minimum(control_plane: ControlPlane, stage: Stage) -> None:
    # Longer than kube-scheduler takes to find new nodes: one that is empty until then is not to be taken for one that nobody needs.
    quick = {"underutilizationDuration": "8s", "cooldownSeconds": 1}
    await stage.group(minNodes=1, maxNodes=5, scaleDownPolicy=quick)
    await stage.workload("web", 6)  # two fit on a small node
    async with operating(control_plane, config(stage.namespace)) as running:
        await stage.settled(3, pods=6)
        group = await eventually(lambda: _status(stage, 3), "the group tells")
        assert (group.status.desired_nodes, group.status.ready_nodes) == (3, 3)
        await stage.event("ScalingUp", saying="4 pending pods fit on no existing node")
        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
        assert running.counted("vpsie_autoscaler_scale_down_total", nodegroup="workers", namespace=stage.namespace) >= 2
        group_of_it = {"nodegroup": "workers", "namespace": stage.namespace}
        assert running.counted("vpsie_autoscaler_node_provisioning_duration_seconds_count", **group_of_it) >= 3
    await stage.event("ScalingDown")


async def _status(stage: Stage, current: int):
    group = await stage.group_now()
    return group if group.status.current_nodes == group.status.ready_nodes == current else None


async def test_one_pod_and_two_groups_is_one_node(control_plane: ControlPlane, stage: Stage) -> None:
    await stage.group("first")
    await stage.group("second")
    await stage.workload("web", 1)
    async with operating(control_plane, config(stage.namespace)) as running:
        await stage.settled(1, pods=1)
        made = running.counted("plimsoll_actions_total", controller="nodegroups", action="CreateMachine", result="done")
        assert made == 1


async def test_maximum_and_batches(control_plane: ControlPlane, stage: Stage) -> None:
    await stage.group(maxNodes=3, scaleUpBatchSize=1)
    await stage.workload("web", 20)
    async with operating(control_plane, config(stage.namespace)):
        await stage.settled(3)
        group = await eventually(lambda: _status(stage, 3), "the group tells")
        assert any(one.type == "AtMaxCapacity" and one.status == "True" for one in group.status.conditions)
        await stage.event("NotTriggerScaleUp", saying="no node of any group would take")
        await eventually(lambda: _three_times(stage), "three additions of one node each")


async def _three_times(stage: Stage) -> bool:
    events = await stage.events("ScalingUp")
    return sum(max(1, one.series.count if one.series else 1) for one in events) >= 3
