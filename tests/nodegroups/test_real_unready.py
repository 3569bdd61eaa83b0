"""A dead node of a group that must have as many nodes as it may have, on the real control plane."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.kube.types.resources import NODES, PODS
from tests.eventually import eventually
from tests.nodegroups.ordeal import QUICK, Ordeal

HELD_UNREADY = "controlplane.test/ready"


async def test_it_is_replaced_once_its_pods_are_gone(ordeal: Ordeal) -> None:
    """S6 and S7: never a node more than the maximum, and none goes with a pod on it."""
    stage = ordeal.stage
    await stage.group(minNodes=1, maxNodes=1, scaleDownPolicy=QUICK)
    async with ordeal.life(unready_timeout=timedelta(seconds=1)):
        await stage.settled(1)
        (node,) = await stage.nodes()
        pod = {
            "metadata": {"name": "lone"},
            "spec": {"nodeName": node.name, "containers": [{"name": "main", "image": "example.org/none"}]},
        }
        made = await stage.client.create(PODS, stage.namespace, pod)
        body = {"metadata": {"annotations": {HELD_UNREADY: "false"}}}
        await stage.client.patch(NODES, "", node.name, body)
        await stage.event("ScaleDownBlocked", saying="must keep 1")
        (still,) = await stage.nodes()
        assert still.uid == node.uid
        assert not any(taint.key == DRAIN_TAINT for taint in still.spec.taints)
        await stage.client.delete(PODS, stage.namespace, "lone", uid=made.uid, grace_seconds=0)
        await eventually(lambda: _another(ordeal, node.uid), "another node takes its place")
        await stage.settled(1)
    await ordeal.was_safe(most=1)


async def _another(ordeal: Ordeal, uid: str) -> bool:
    return [node.uid for node in await ordeal.stage.nodes() if node.ready and node.uid != uid] != []
